"""Speed and accuracy of our own code; never timed inside a test."""
