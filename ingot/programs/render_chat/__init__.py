"""Write a conversation as a prompt, within limits of time and memory."""
