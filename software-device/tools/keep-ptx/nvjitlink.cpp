// A libnvJitLink without a single function, for Numba and others that use cuda.core: what finds it
// loaded under its name, and not the function that tells its version, links through the driver
// (cuLink*), which keeps PTX. NVIDIA's would make machine code of it.
