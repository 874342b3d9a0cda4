create table if not exists account (
  id text primary key,
  email text,
  created_at bigint not null,
  created_from text not null,
  claimed_at bigint
);

create table if not exists account_creation (
  prefix text not null,
  hour bigint not null,
  created bigint not null,
  granted bigint not null,
  primary key (prefix, hour)
);

create table if not exists api_key (
  id text primary key,
  account_id text not null,
  hash text not null unique,
  name text,
  prefix text not null,
  last4 text not null,
  created_at bigint not null,
  last_used_at bigint,
  expires_at bigint,
  revoked_at bigint,
  limit_nano bigint,
  limit_window text
);

create index if not exists api_key_by_account on api_key (account_id, id);

create table if not exists wallet (
  account_id text primary key,
  promo bigint not null check (promo >= 0),
  paid bigint not null check (paid >= 0),
  held bigint not null check (held >= 0)
);

create table if not exists spender (
  key_id text primary key,
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
  month_spent bigint not null
);

create table if not exists hold (
  id text primary key,
  account_id text not null,
  key_id text not null,
  amount bigint not null check (amount >= 0),
  process text not null,
  epoch bigint not null,
  created_at bigint not null,
  expires_at bigint not null
);

create table if not exists swept_hold (
  id text primary key,
  account_id text not null,
  key_id text not null,
  amount bigint not null,
  swept_at bigint not null,
  reason text not null
);

create table if not exists transfer (
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

create table if not exists process (
  name text primary key,
  epoch bigint not null,
  started_at bigint not null,
  seen_at bigint not null
);

create table if not exists usage_record (
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
  primary key (account_id, id)
);

create table if not exists idempotent_answer (
  id text primary key,
  fingerprint text not null,
  state text not null,
  hold_id text,
  status bigint,
  sealed text,
  created_at bigint not null,
  expires_at bigint not null
);

create index if not exists idempotent_answer_by_expiry on idempotent_answer (expires_at);
