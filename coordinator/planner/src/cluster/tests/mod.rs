mod circuits;
