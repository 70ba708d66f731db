# The .npy files beside this script, as NumPy 1.24 writes them: python3 make.py
import numpy as np
from numpy.lib import format

x = np.arange(6).reshape(2, 3)
for name in ["<f4", "<f8", "<f2", "<i8", "<i4", "|u1", ">f4", ">f2", ">i8"]:
    np.save(name.replace("<", "le-").replace(">", "be-").replace("|", "") + ".npy", (x - (0 if "u" in name else 2)).astype(name))
np.save("b1.npy", x % 2 == 1)
np.save("bf16.npy", (x - 2).astype(">f4").view(">u2")[:, ::2].astype("<u2").view("V2"))
np.save("fortran.npy", np.asfortranarray(np.arange(24, dtype="<f4").reshape(2, 3, 4)))
np.save("scalar.npy", np.float32(7))
np.save("vector.npy", np.arange(5, dtype="<i4"))
np.save("empty.npy", np.zeros((0, 3), "<f4"))
for version in [(2, 0), (3, 0)]:
    with open("version%d.npy" % version[0], "wb") as f:
        format.write_array(f, x.astype("<f4"), version=version)
np.save("refused-struct.npy", np.zeros(2, [("a", "<f4"), ("b", "<i4")]))
np.save("refused-complex.npy", np.zeros(2, "<c8"))
np.save("refused-i1.npy", np.zeros(2, "i1"))
np.save("refused-text.npy", np.array(["ab", "c"]))
