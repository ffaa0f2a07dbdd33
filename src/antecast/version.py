"""The version, in one place: the package, the manifests of runs and the build read it from here."""

__version__ = "0.3.0"
