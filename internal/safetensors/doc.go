// Package safetensors reads and writes the safetensors format: a header in JSON that names tensors, and their elements
// one after the other.
//
//	8 bytes   length of the header, little-endian
//	header    {"__metadata__": {"key": "value"}, "name": {"dtype": "F32", "shape": [2,3], "data_offsets": [0,24]}, ...},
//	          filled up with spaces to a multiple of 8
//	data      elements, row-major, little-endian; offsets count from here, and leave out and repeat no byte
//
// The format is Hugging Face's (github.com/huggingface/safetensors, format.md). Nothing in a header is believed before it
// was compared with the size of the file.
package safetensors
