create table if not exists email (
  id text primary key,
  account_id text not null,
  type text not null,
  address text not null,
  person_id text,
  data text not null,
  status text not null,
  tries bigint not null,
  due_at bigint not null,
  lease text,
  error text,
  created_at bigint not null,
  ended_at bigint
);

create index if not exists email_by_due on email (status, due_at);

create index if not exists email_by_address on email (address, created_at);

create index if not exists email_by_age on email (created_at);

create table if not exists email_opt_out (
  person_id text not null,
  category text not null,
  primary key (person_id, category)
);

create index if not exists person_by_email on person (email);

alter table api_key add column expiry_event_for bigint;

create index if not exists api_key_by_expiry on api_key (expires_at);
