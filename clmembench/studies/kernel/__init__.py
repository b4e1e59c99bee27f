"""What a kernel does to memory, what that costs on a device, and how long it really takes."""
