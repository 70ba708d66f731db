package offload

// SystemFiles are what a nil Config.Files stands for.
func SystemFiles() Files { return systemFiles{} }
