"""The embedded default: an emulator, a sample model and sample tickets on this machine."""
