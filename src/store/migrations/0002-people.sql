create table if not exists person (
  id text primary key,
  issuer text not null,
  subject text not null,
  email text not null,
  name text,
  created_at bigint not null,
  signed_in_at bigint not null,
  unique (issuer, subject)
);

create table if not exists session (
  id text primary key,
  hash text not null unique,
  person_id text not null,
  created_at bigint not null,
  seen_at bigint not null,
  expires_at bigint not null,
  ended_at bigint,
  network text not null,
  browser text not null
);

create index if not exists session_by_person on session (person_id, id);

create table if not exists membership (
  account_id text not null,
  person_id text not null,
  role text not null,
  owner_of text unique,
  added_at bigint not null,
  via text not null,
  primary key (account_id, person_id)
);

create index if not exists membership_by_person on membership (person_id, account_id);

create table if not exists claim_attempt (
  id text primary key,
  account_id text not null,
  ordinal bigint not null,
  key_id text not null,
  email text not null,
  email_folded text not null,
  token_hash text not null unique,
  code_hash text not null,
  network text not null,
  invitation bigint not null,
  created_at bigint not null,
  expires_at bigint not null,
  wrong_codes bigint not null,
  interval_ms bigint not null,
  polled_at bigint,
  superseded_at bigint,
  declined_at bigint,
  claimed_at bigint,
  claimed_by text,
  claimed_role text,
  bonus bigint not null
);

create index if not exists claim_attempt_by_account on claim_attempt (account_id, ordinal);

create index if not exists claim_attempt_by_email on claim_attempt (email_folded, id);

create table if not exists claim_count (
  scope text not null,
  slot bigint not null,
  counted bigint not null,
  primary key (scope, slot)
);

create table if not exists human_grant (
  id text primary key,
  issuer text not null,
  subject text not null,
  mailbox text not null unique,
  account_id text not null,
  amount bigint not null,
  granted_at bigint not null,
  unique (issuer, subject)
);
