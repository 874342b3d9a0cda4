create table if not exists response_storage (
  account_id text primary key,
  mode text not null,
  retention_days bigint not null
);

create index if not exists stored_response_by_age on stored_response (account_id, created_at, bytes);

drop index if exists stored_response_by_account;

create table if not exists stored_stream (
  response_id text not null,
  part bigint not null,
  last_sequence bigint not null,
  sealed_events text not null,
  primary key (response_id, part)
);
