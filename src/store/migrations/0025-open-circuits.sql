create table if not exists open_circuits (
  process text primary key,
  -- JSON: provider, account and model of each, separated by spaces.
  circuits text not null
);
