# No garbage is collected but by GC.start.
GC.disable
