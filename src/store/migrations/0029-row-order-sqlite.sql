create table new_transfer (
  account_id text not null,
  id text not null,
  from_account text not null,
  to_account text not null,
  amount bigint not null check (amount > 0),
  kind text not null,
  ref text not null,
  at bigint not null,
  memo text,
  primary key (account_id, id)
);

insert into new_transfer (account_id, id, from_account, to_account, amount, kind, ref, at, memo)
select account_id, id, from_account, to_account, amount, kind, ref, at, memo from transfer;

drop table transfer;

alter table new_transfer rename to transfer;

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
  primary key (account_id, id)
);

insert into new_usage_record (
  account_id, id, key_id, created_at, day, model, provider, api, stream, outcome, status, input_tokens, cache_read_tokens,
  cache_write_tokens, output_tokens, reasoning_tokens, cost_nano, byok, exact, latency_ms, first_token_ms, detail, labels
)
select
  account_id, id, key_id, created_at, day, model, provider, api, stream, outcome, status, input_tokens, cache_read_tokens,
  cache_write_tokens, output_tokens, reasoning_tokens, cost_nano, byok, exact, latency_ms, first_token_ms, detail, labels
from usage_record;

drop table usage_record;

alter table new_usage_record rename to usage_record;

create table new_spender (
  key_id text not null,
  account_id text not null,
  held bigint not null check (held >= 0),
  open_calls bigint not null check (open_calls >= 0),
  paced_until bigint not null,
  total_spent bigint not null,
  day_start bigint not null,
  day_spent bigint not null,
  week_start bigint not null,
  week_spent bigint not null,
  month_start bigint not null,
  month_spent bigint not null,
  primary key (key_id, account_id)
) without rowid;

insert into new_spender (
  key_id, account_id, held, open_calls, paced_until, total_spent, day_start, day_spent, week_start, week_spent, month_start,
  month_spent
)
select
  key_id, account_id, held, open_calls, paced_until, total_spent, day_start, day_spent, week_start, week_spent, month_start,
  month_spent
from spender;

drop table spender;

alter table new_spender rename to spender;

create table new_hold (
  id text not null,
  account_id text not null,
  key_id text not null,
  amount bigint not null check (amount >= 0),
  process text not null,
  epoch bigint not null,
  created_at bigint not null,
  expires_at bigint not null,
  primary key (id, account_id)
) without rowid;

insert into new_hold (id, account_id, key_id, amount, process, epoch, created_at, expires_at)
select id, account_id, key_id, amount, process, epoch, created_at, expires_at from hold;

drop table hold;

alter table new_hold rename to hold;

create table new_swept_hold (
  id text not null,
  account_id text not null,
  key_id text not null,
  amount bigint not null,
  swept_at bigint not null,
  reason text not null,
  primary key (id, account_id)
) without rowid;

insert into new_swept_hold (id, account_id, key_id, amount, swept_at, reason)
select id, account_id, key_id, amount, swept_at, reason from swept_hold;

drop table swept_hold;

alter table new_swept_hold rename to swept_hold;
