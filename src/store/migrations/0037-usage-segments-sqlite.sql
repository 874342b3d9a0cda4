create table new_usage_record (
  account_id text not null,
  id text not null,
  key_id text not null,
  created_at bigint not null,
  day text not null,
  model text not null,
  provider text not null,
  api text not null,
  stream bigint not null,
  outcome text not null,
  status bigint not null,
  input_tokens bigint not null,
  cache_read_tokens bigint not null,
  cache_write_tokens bigint not null,
  output_tokens bigint not null,
  reasoning_tokens bigint not null,
  cost_nano bigint not null,
  byok bigint not null,
  exact bigint not null,
  latency_ms bigint not null,
  first_token_ms bigint,
  detail text not null,
  labels text,
  promo_nano bigint,
  paid_nano bigint,
  overrun_nano bigint,
  charged_at bigint,
  primary key (id, account_id)
);

insert into new_usage_record (
  account_id, id, key_id, created_at, day, model, provider, api, stream, outcome, status, input_tokens,
  cache_read_tokens, cache_write_tokens, output_tokens, reasoning_tokens, cost_nano, byok, exact, latency_ms,
  first_token_ms, detail, labels, promo_nano, paid_nano, overrun_nano, charged_at
)
select
  account_id, id, key_id, created_at, day, model, provider, api, stream, outcome, status, input_tokens,
  cache_read_tokens, cache_write_tokens, output_tokens, reasoning_tokens, cost_nano, byok, exact, latency_ms,
  first_token_ms, detail, labels, promo_nano, paid_nano, overrun_nano, charged_at
from usage_record;

drop table usage_record;

alter table new_usage_record rename to usage_record;

create table usage_segment (
  number bigint not null,
  last_id text not null,
  primary key (last_id)
) without rowid;

create table usage_by_account (
  segment bigint not null,
  account_id text not null,
  id text not null,
  primary key (segment, account_id, id)
) without rowid;
