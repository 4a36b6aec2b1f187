"""From results to what people deposit, and back: bundles, their descriptions, their checks."""
