alter table wallet add column frozen_at bigint;

alter table wallet add column frozen_reason text;

create table if not exists operator_session (
  id text primary key,
  hash text not null unique,
  email text not null,
  created_at bigint not null,
  seen_at bigint not null,
  expires_at bigint not null,
  ended_at bigint,
  network text not null,
  browser text not null
);
