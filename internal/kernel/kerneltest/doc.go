// Package kerneltest holds one suite for each routine of package kernel. A suite takes the implementation to test, so that
// plain Go and every assembly version pass the same one.
//
// References are naive loops in float64. Tolerances are in units of the type's epsilon (2^-23, 2^-52), relative to the
// value (rel) and to the size of the terms that it was summed from (abs).
package kerneltest
