create table if not exists ledger_checkpoint (
  account_id text not null,
  key_id text not null,
  through_id text not null,
  promo_nano bigint not null,
  paid_nano bigint not null,
  overrun_nano bigint not null,
  primary key (account_id, key_id, through_id)
);
