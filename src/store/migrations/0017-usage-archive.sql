create table if not exists usage_archive (
  account_id text not null,
  key_id text not null,
  calls bigint not null,
  cost_nano bigint not null,
  charged_nano bigint not null,
  last_at bigint not null,
  through_id text not null,
  primary key (account_id, key_id)
);
