-- The time zone in which a person reads times; null for UTC.
alter table person add column time_zone text;
