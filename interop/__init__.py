"""Tables written by the JVM reference implementations, read by lakescan: run by `make test-interop`."""
