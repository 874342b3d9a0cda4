create table if not exists usage_rollup (
  account_id text not null,
  unit text not null,
  at bigint not null,
  label text not null,
  key_id text not null,
  model text not null,
  provider text not null,
  api text not null,
  byok bigint not null,
  calls bigint not null,
  errors bigint not null,
  aborted bigint not null,
  estimated bigint not null,
  input_tokens bigint not null,
  cache_read_tokens bigint not null,
  cache_write_tokens bigint not null,
  output_tokens bigint not null,
  reasoning_tokens bigint not null,
  cost_nano bigint not null,
  list_nano bigint not null,
  latency_ms bigint not null,
  latency_0 bigint not null,
  latency_1 bigint not null,
  latency_2 bigint not null,
  latency_3 bigint not null,
  latency_4 bigint not null,
  latency_5 bigint not null,
  latency_6 bigint not null,
  latency_7 bigint not null,
  latency_8 bigint not null,
  latency_9 bigint not null,
  latency_10 bigint not null,
  latency_11 bigint not null,
  latency_12 bigint not null,
  latency_13 bigint not null,
  latency_14 bigint not null,
  first_token_0 bigint not null,
  first_token_1 bigint not null,
  first_token_2 bigint not null,
  first_token_3 bigint not null,
  first_token_4 bigint not null,
  first_token_5 bigint not null,
  first_token_6 bigint not null,
  first_token_7 bigint not null,
  first_token_8 bigint not null,
  first_token_9 bigint not null,
  first_token_10 bigint not null,
  first_token_11 bigint not null,
  first_token_12 bigint not null,
  first_token_13 bigint not null,
  first_token_14 bigint not null,
  primary key (account_id, unit, at, label, key_id, model, provider, api, byok)
);

create table if not exists usage_pending (
  id text primary key,
  account_id text,
  deltas text
);

alter table usage_record add column labels text;

insert into usage_pending (id, account_id)
select id, account_id from usage_record where not exists (select 1 from usage_rollup)
on conflict (id) do nothing;
