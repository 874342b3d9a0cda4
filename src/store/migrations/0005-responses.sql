create table if not exists stored_response (
  id text primary key,
  account_id text not null,
  previous_id text,
  status text not null,
  background bigint not null,
  hold_id text not null,
  origin text,
  bytes bigint not null,
  sealed_input text not null,
  sealed_response text not null,
  data_key text not null,
  kek_version bigint not null,
  created_at bigint not null,
  expires_at bigint not null
);

create index if not exists stored_response_by_account on stored_response (account_id, bytes);

create index if not exists stored_response_by_expiry on stored_response (expires_at);

create index if not exists stored_response_by_status on stored_response (status, created_at);

create table if not exists stored_item (
  account_id text not null,
  id text not null,
  response_id text not null,
  primary key (account_id, id)
);

create index if not exists stored_item_by_response on stored_item (response_id);
