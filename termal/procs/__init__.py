"""Who lives and who dies: starting processes, tying them to their parent, finding and ending whole trees."""
