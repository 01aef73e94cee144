"""The folder that `proveout compat on` puts on the path: a package for each of the names that are served."""
