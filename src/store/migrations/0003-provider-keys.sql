create table if not exists provider_key (
  id text primary key,
  account_id text not null,
  provider text not null,
  name text,
  last4 text not null,
  status text not null,
  sealed text,
  data_key text,
  kek_version bigint not null,
  created_at bigint not null,
  last_used_at bigint,
  deleted_at bigint
);

create index if not exists provider_key_by_account on provider_key (account_id, id);

create index if not exists provider_key_by_provider on provider_key (account_id, provider, id);
