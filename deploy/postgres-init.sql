-- Runs once, when the data volume is empty. The repo host's database (pds) is made
-- by the image; the appview has one of its own, for the two never read each other's tables.
CREATE DATABASE appview OWNER herbarium;
