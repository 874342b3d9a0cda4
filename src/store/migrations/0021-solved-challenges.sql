-- Solved proof-of-work challenges of account creations, until they expire.
create table if not exists solved_challenge (
  challenge text not null primary key,
  expires_at bigint not null
);
