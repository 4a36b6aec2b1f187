"""What is asked, what happened, what is claimed: the documents, as frozen types."""
