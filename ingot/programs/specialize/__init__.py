"""Write one static module of a component and the dims of an instance."""
