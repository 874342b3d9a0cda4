-- All tables of PostgreSQL, version 1 of the schema. schema-sqlite.sql has the same columns: a test compares them.

-- accounts

create table account (
  id text primary key,
  email text,
  created_at bigint not null,
  created_from text not null,
  claimed_at bigint,
  name text,
  created_by text,
  erased_at bigint,
  verified_agent text,
  sso_required_at bigint,
  signs_receipts bigint not null default 0,
  prompt_retention_days bigint,
  exports_usage bigint not null default 0,
  data_policy text
);

create index account_by_creator on account (created_by);

create index account_by_verified_agent on account (verified_agent, id) where verified_agent is not null;

create table account_creation (
  prefix text not null,
  hour bigint not null,
  created bigint not null,
  granted bigint not null,
  primary key (prefix, hour)
);

create table solved_challenge (
  challenge text not null primary key,
  expires_at bigint not null
);

create table membership (
  account_id text not null,
  person_id text not null,
  role text not null,
  owner_of text unique,
  added_at bigint not null,
  via text not null,
  allowance_nano bigint,
  allowance_window text,
  via_key_id text,
  allowance_requested_at bigint,
  primary key (account_id, person_id)
);

create index membership_by_person on membership (person_id, account_id);

create table invitation (
  id text primary key,
  account_id text not null,
  email text not null,
  invited_by text not null,
  created_at bigint not null,
  expires_at bigint not null,
  role text not null default 'developer',
  allowance_nano bigint,
  allowance_window text,
  unique (account_id, email)
);

create index invitation_by_email on invitation (email, id);

-- keys

create table api_key (
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
  limit_window text,
  scopes text,
  created_by text,
  policy text,
  alert_percents text,
  secret_id text,
  expiry_event_for bigint,
  former_hash text unique,
  former_last4 text,
  former_until bigint,
  former_last_used_at bigint,
  app text,
  chain_reference text unique,
  chain_secret text,
  ancestors text,
  credential text
);

create index api_key_by_account on api_key (account_id, id);

create index api_key_by_expiry on api_key (expires_at);

-- people

create table person (
  id text primary key,
  issuer text not null,
  subject text not null,
  email text not null,
  name text,
  created_at bigint not null,
  signed_in_at bigint not null,
  time_zone text,
  sso_account_id text not null default '',
  unique (issuer, subject, sso_account_id)
);

create index person_by_email on person (email);

create index person_by_sso on person (sso_account_id) where sso_account_id <> '';

create table session (
  id text primary key,
  hash text not null unique,
  person_id text not null,
  created_at bigint not null,
  seen_at bigint not null,
  expires_at bigint not null,
  ended_at bigint,
  network text not null,
  browser text not null
);

create index session_by_person on session (person_id, id);

-- sso

create table workspace_domain (
  account_id text not null,
  domain text not null,
  token text not null,
  created_at bigint not null,
  verified_at bigint,
  verified_domain text unique,
  checked_at bigint,
  missing_since bigint,
  primary key (account_id, domain)
);

create index workspace_domain_by_check on workspace_domain (checked_at) where verified_domain is not null;

create table sso_connection (
  account_id text primary key,
  id text not null,
  issuer text not null,
  client_id text not null,
  sealed text,
  default_role text,
  created_at bigint not null,
  signed_in_at bigint
);

-- scim

create table scim_directory (
  account_id text primary key,
  token_hash text not null unique,
  last4 text not null,
  former_hash text unique,
  former_until bigint not null,
  fallback_role text not null,
  hands_over_keys bigint not null,
  created_at bigint not null,
  used_at bigint
);

create table scim_user (
  account_id text not null,
  id text not null,
  user_name text not null,
  user_name_folded text not null,
  email text not null,
  email_folded text not null,
  external_id text,
  active bigint not null,
  display_name text,
  given_name text,
  family_name text,
  person_id text,
  created_at bigint not null,
  changed_at bigint not null,
  primary key (account_id, id),
  unique (account_id, user_name_folded)
);

create index scim_user_by_email on scim_user (account_id, email_folded);

create table scim_group (
  account_id text not null,
  id text not null,
  display_name text not null,
  display_name_folded text not null,
  external_id text,
  role text,
  created_at bigint not null,
  changed_at bigint not null,
  primary key (account_id, id),
  unique (account_id, display_name_folded)
);

create table scim_group_member (
  account_id text not null,
  group_id text not null,
  user_id text not null,
  primary key (account_id, group_id, user_id)
);

create index scim_group_member_by_user on scim_group_member (account_id, user_id);

-- claims

create table claim_attempt (
  id text primary key,
  account_id text not null,
  ordinal bigint not null,
  key_id text not null,
  email text not null,
  email_folded text not null,
  token_hash text not null unique,
  code_hash text not null,
  network text not null,
  invitation bigint not null,
  created_at bigint not null,
  expires_at bigint not null,
  wrong_codes bigint not null,
  interval_ms bigint not null,
  polled_at bigint,
  superseded_at bigint,
  declined_at bigint,
  claimed_at bigint,
  claimed_by text,
  claimed_role text,
  bonus bigint not null
);

create index claim_attempt_by_account on claim_attempt (account_id, ordinal);

create index claim_attempt_by_email on claim_attempt (email_folded, id);

create table claim_count (
  scope text not null,
  slot bigint not null,
  counted bigint not null,
  primary key (scope, slot)
);

create table device_login (
  id text primary key,
  device_code_hash text not null unique,
  user_code_hash text not null unique,
  client text not null,
  network text not null,
  created_at bigint not null,
  expires_at bigint not null,
  interval_ms bigint not null,
  polled_at bigint,
  approved_at bigint,
  denied_at bigint,
  person_id text,
  account_id text,
  limit_nano bigint,
  limit_window text,
  key_id text
);

create table authorization_code (
  id text primary key,
  code_hash text not null unique,
  client_id text not null,
  client_name text not null,
  redirect_uri text not null,
  resource text not null,
  key_name text not null,
  key_lifetime_ms bigint,
  models text,
  code_challenge text not null,
  scopes text not null,
  limit_nano bigint not null,
  limit_window text,
  account_id text not null,
  person_id text not null,
  created_at bigint not null,
  expires_at bigint not null,
  key_id text
);

create table mcp_session (
  id_hash text primary key,
  key_id text not null,
  created_at bigint not null,
  expires_at bigint not null
);

create table human_grant (
  id text primary key,
  issuer text not null,
  subject text not null,
  mailbox text not null unique,
  account_id text not null,
  amount bigint not null,
  granted_at bigint not null,
  unique (issuer, subject)
);

-- ledger

create table wallet (
  account_id text primary key,
  promo bigint not null check (promo >= 0),
  paid bigint not null check (paid >= 0),
  held bigint not null check (held >= 0),
  low_at bigint not null default 1000000000,
  owed bigint not null default 0,
  top_up_at bigint not null default 0,
  day_budget bigint,
  month_budget bigint,
  day_start bigint,
  day_spent bigint,
  month_start bigint,
  month_spent bigint,
  frozen_at bigint,
  frozen_reason text,
  written_off bigint not null default 0,
  closing_at bigint
);

create index wallet_by_closing on wallet (closing_at) where closing_at is not null;

create table spender (
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
);

create index spender_by_account on spender (account_id);

create table hold (
  id text not null,
  account_id text not null,
  key_id text not null,
  amount bigint not null check (amount >= 0),
  process text not null,
  epoch bigint not null,
  created_at bigint not null,
  expires_at bigint not null,
  session_id text,
  calls bigint not null default 1,
  lease bigint,
  primary key (id, account_id)
);

create table swept_hold (
  id text not null,
  account_id text not null,
  key_id text not null,
  amount bigint not null,
  swept_at bigint not null,
  reason text not null,
  session_id text,
  primary key (id, account_id)
);

create table agent_session (
  account_id text not null,
  id text not null,
  key_id text not null,
  created_at bigint not null,
  last_call_at bigint not null,
  limit_nano bigint,
  held bigint not null check (held >= 0),
  spent bigint not null check (spent >= 0),
  stopped_at bigint,
  primary key (account_id, id)
);

create index agent_session_by_start on agent_session (account_id, created_at, id);

create index agent_session_by_use on agent_session (last_call_at);

create index agent_session_by_stop on agent_session (stopped_at) where stopped_at is not null;

create table transfer (
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

create index transfer_by_time on transfer (account_id, at);

create table ledger_checkpoint (
  account_id text not null,
  key_id text not null,
  through_id text not null,
  promo_nano bigint not null,
  paid_nano bigint not null,
  overrun_nano bigint not null,
  primary key (account_id, key_id, through_id)
);

create table process (
  name text primary key,
  epoch bigint not null,
  started_at bigint not null,
  seen_at bigint not null,
  stopped_at bigint
);

-- usage

create table usage_record (
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
  primary key (account_id, id)
);

create index usage_record_late on usage_record (account_id, charged_at) where charged_at - created_at > 7200000;

create table refused_call (
  account_id text not null,
  id text not null,
  key_id text not null,
  created_at bigint not null,
  path text not null,
  model text,
  status bigint not null,
  code text not null,
  message text not null,
  primary key (account_id, id)
);

create index refused_call_by_age on refused_call (created_at);

create table session_usage (
  account_id text not null,
  session_id text not null,
  agent text not null,
  parent_agent text not null,
  calls bigint not null,
  errors bigint not null,
  input_tokens bigint not null,
  output_tokens bigint not null,
  cost_nano bigint not null,
  first_at bigint not null,
  last_at bigint not null,
  primary key (account_id, session_id, agent)
);

create index session_usage_by_use on session_usage (last_at);

create table usage_pending (
  id text primary key,
  deltas text not null,
  failures text,
  charges text,
  credentials text
);

create table usage_rollup (
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

create table provider_hour (
  at bigint not null,
  provider text not null,
  model text not null,
  calls bigint not null,
  completed bigint not null,
  failures bigint not null,
  cost_nano bigint not null,
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
  primary key (at, provider, model)
);

create table credential_hour (
  at bigint not null,
  provider text not null,
  credential text not null,
  calls bigint not null,
  failures bigint not null,
  cost_nano bigint not null,
  primary key (at, provider, credential)
);

create table charge_hour (
  at bigint primary key,
  promo_nano bigint not null,
  paid_nano bigint not null,
  overrun_nano bigint not null
);

create table usage_archive (
  account_id text not null,
  key_id text not null,
  calls bigint not null,
  cost_nano bigint not null,
  charged_nano bigint not null,
  last_at bigint not null,
  through_id text not null,
  primary key (account_id, key_id)
);

-- idempotency

create table idempotent_answer (
  id text primary key,
  fingerprint text not null,
  state text not null,
  hold_id text,
  status bigint,
  created_at bigint not null,
  expires_at bigint not null,
  sealed text,
  process text,
  epoch bigint
);

create index idempotent_answer_by_expiry on idempotent_answer (expires_at);

create index idempotent_answer_running on idempotent_answer (process) where state = 'running';

-- provider-keys

create table provider_key (
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
  deleted_at bigint,
  key_id text,
  api_key_ids text,
  allow_store bigint not null default 0
);

create index provider_key_by_account on provider_key (account_id, id);

create index provider_key_by_provider on provider_key (account_id, provider, id);

-- responses

create table guardrail (
  account_id text not null,
  name text not null,
  created_at bigint not null,
  updated_at bigint not null,
  settings text not null,
  primary key (account_id, name)
);

create table mcp_server (
  account_id text not null,
  name text not null,
  created_at bigint not null,
  updated_at bigint not null,
  settings text not null,
  sealed text,
  primary key (account_id, name)
);

create table preset (
  account_id text not null,
  name text not null,
  version bigint not null,
  created_at bigint not null,
  settings text not null,
  primary key (account_id, name, version)
);

create table response_storage (
  account_id text primary key,
  mode text not null,
  retention_days bigint not null
);

create table prompt_log (
  id text primary key,
  account_id text not null,
  created_at bigint not null,
  expires_at bigint not null,
  data_key text not null,
  sealed_request bytea not null,
  sealed_reply bytea
);

create index prompt_log_by_account on prompt_log (account_id);

create index prompt_log_by_expiry on prompt_log (expires_at);

create table stored_response (
  id text primary key,
  account_id text not null,
  previous_id text,
  status text not null,
  background bigint not null,
  hold_id text not null,
  origin text,
  bytes bigint not null,
  data_key text not null,
  kek_version bigint not null,
  created_at bigint not null,
  expires_at bigint not null,
  sealed_record bytea,
  sealed_input text not null,
  sealed_response text not null
);

create index stored_response_by_age on stored_response (account_id, created_at, bytes);

create index stored_response_by_expiry on stored_response (expires_at);

create index stored_response_in_progress on stored_response (created_at) where status = 'in_progress';

create table stored_item (
  account_id text not null,
  id text not null,
  response_id text not null,
  primary key (account_id, id)
);

create index stored_item_by_response on stored_item (response_id);

create table stored_stream (
  response_id text not null,
  part bigint not null,
  last_sequence bigint not null,
  sealed_events text not null,
  primary key (response_id, part)
);

-- batches

create table batch (
  id text primary key,
  account_id text not null,
  key_id text not null,
  form text not null,
  endpoint text not null,
  status text not null,
  provider text,
  requests bigint not null,
  bytes bigint not null,
  headers text not null,
  metadata text,
  input_file_id text,
  output_file_id text,
  error_file_id text,
  data_key text not null,
  created_at bigint not null,
  started_at bigint,
  expires_at bigint not null,
  cancel_at bigint,
  ended_at bigint,
  succeeded bigint not null,
  errored bigint not null,
  canceled bigint not null,
  expired bigint not null,
  cost bigint not null,
  process text,
  epoch bigint
);

create index batch_by_account on batch (account_id, id);

create index batch_unfinished on batch (id) where ended_at is null;

create index batch_by_age on batch (created_at);

create table batch_item (
  batch_id text not null,
  position bigint not null,
  custom_id text not null,
  status text not null,
  share bigint not null,
  cost bigint not null,
  http_status bigint,
  request_id text,
  sealed_request bytea,
  sealed_result bytea,
  target text,
  batch_share bigint,
  provider_batch_id text,
  primary key (batch_id, position)
);

create index batch_item_pending on batch_item (batch_id, position) where status = 'pending';

create table provider_batch (
  id text primary key,
  batch_id text not null,
  target text not null,
  state text not null,
  attempts bigint not null,
  attempted_at bigint,
  remote_id text,
  remote_file_id text
);

create index provider_batch_by_batch on provider_batch (batch_id);

create index provider_batch_by_remote on provider_batch (remote_id);

create table stored_file (
  id text primary key,
  account_id text not null,
  key_id text not null,
  purpose text not null,
  filename text not null,
  bytes bigint not null,
  parts bigint,
  batch_id text,
  data_key text not null,
  created_at bigint not null,
  expires_at bigint not null
);

create index stored_file_by_account on stored_file (account_id, id);

create index stored_file_by_expiry on stored_file (expires_at);

create table stored_file_part (
  file_id text not null,
  part bigint not null,
  sealed bytea not null,
  primary key (file_id, part)
);

-- billing

create table invoice (
  id text primary key,
  account_id text not null,
  status text not null,
  credits bigint not null check (credits > 0),
  total_cents bigint not null check (total_cents * 10000 >= credits),
  tax_cents bigint not null check (tax_cents >= 0),
  created_at bigint not null,
  paid_at bigint,
  voided_at bigint,
  buyer text,
  number bigint unique
);

create index invoice_by_account on invoice (account_id, id);

create index invoice_by_status on invoice (account_id, status);

create table billing_details (
  account_id text primary key,
  name text,
  address text,
  tax_id text,
  po_number text,
  contacts text not null
);

create table invoice_series (
  id text primary key,
  last bigint not null
);

create table checkout (
  id text primary key,
  invoice_id text not null,
  processor text not null,
  ref text not null,
  state text not null,
  created_at bigint not null,
  looked_at bigint not null,
  due_at bigint
);

create index checkout_by_due on checkout (due_at);

create index checkout_by_invoice on checkout (invoice_id, id);

create table payment (
  id text primary key,
  invoice_id text not null,
  account_id text not null,
  processor text not null,
  state text not null,
  reason text,
  currency text not null,
  amount_cents bigint not null,
  credits bigint not null,
  tax_cents bigint not null,
  refunded_cents bigint not null,
  disputed_cents bigint not null,
  paid_at bigint not null
);

create index payment_by_invoice on payment (invoice_id, id);

create table payment_fact (
  id text primary key,
  processor text not null,
  ref text not null,
  kind text not null,
  payment_id text not null,
  invoice_id text not null,
  amount_cents bigint not null,
  tax_cents bigint not null,
  currency text not null,
  at bigint not null,
  heard_at bigint not null,
  state text not null,
  reason text
);

create index payment_fact_by_payment on payment_fact (payment_id, state);

create table payment_method (
  id text primary key,
  account_id text not null,
  processor text not null,
  state text not null,
  customer text,
  ref text,
  label text,
  page_ref text,
  saved_by text not null,
  created_at bigint not null,
  looked_at bigint not null,
  due_at bigint
);

create index payment_method_by_account on payment_method (account_id, id);

create index payment_method_by_due on payment_method (due_at);

create index payment_method_by_page on payment_method (page_ref);

create table auto_top_up (
  account_id text primary key,
  status text not null,
  threshold_cents bigint not null check (threshold_cents > 0),
  amount_cents bigint not null check (amount_cents > 0),
  ceiling_cents bigint not null check (ceiling_cents >= amount_cents),
  failures bigint not null,
  stopped_reason text,
  stopped_at bigint,
  ceiling_told bigint not null,
  due_at bigint
);

create index auto_top_up_by_due on auto_top_up (due_at);

create index auto_top_up_by_status on auto_top_up (status, account_id);

create table top_up (
  id text primary key,
  account_id text not null,
  invoice_id text not null,
  method_id text not null,
  amount_cents bigint not null check (amount_cents > 0),
  fee_cents bigint not null check (fee_cents >= 0),
  state text not null,
  open_for text unique,
  ref text,
  reason text,
  created_at bigint not null,
  due_at bigint,
  ended_at bigint
);

create index top_up_by_account on top_up (account_id, id);

create index top_up_by_due on top_up (due_at);

create index top_up_by_invoice on top_up (invoice_id, id);

create table agent_payment (
  id text primary key,
  account_id text not null,
  invoice_id text not null,
  made_invoice bigint not null,
  signed text not null,
  payer text not null,
  total_cents bigint not null,
  state text not null,
  reason text,
  tx_hash text,
  expires_at bigint not null,
  created_at bigint not null,
  due_at bigint,
  method text not null default 'x402'
);

create index agent_payment_by_due on agent_payment (due_at);

create index agent_payment_by_invoice on agent_payment (invoice_id, id);

create unique index agent_payment_by_token on agent_payment (payer) where method = 'stripe';

create table metered_payment (
  id text primary key,
  account_id text not null,
  request_id text not null,
  payer text not null,
  signed text not null,
  credit_nano bigint not null,
  charge_nano bigint not null,
  amount_nano bigint not null,
  state text not null,
  reason text,
  tx_hash text,
  created_at bigint not null,
  expires_at bigint not null,
  due_at bigint
);

create index metered_payment_by_due on metered_payment (due_at);

create index metered_payment_at_risk on metered_payment (payer) where state in ('open', 'due', 'lost');

create index agent_payment_by_unclear on agent_payment (created_at) where state = 'unclear';

-- activity

create table audit (
  id text primary key,
  account_id text,
  at bigint not null,
  actor_type text not null,
  actor_id text not null,
  action text not null,
  target text,
  detail text not null,
  network text,
  ip text
);

create index audit_by_account on audit (account_id, id);

create index audit_by_actor on audit (actor_id, id);

create index audit_with_ip on audit (at) where ip is not null;

create table audit_stream (
  account_id text primary key,
  kind text not null,
  url text not null,
  header_name text,
  sealed text,
  created_at bigint not null,
  due_at bigint not null,
  lease text,
  tries bigint not null,
  failing_since bigint,
  last_error text,
  delivered_at bigint
);

create table audit_stream_entry (
  account_id text not null,
  audit_id text not null,
  created_at bigint not null,
  primary key (account_id, audit_id)
);

create index audit_stream_entry_by_age on audit_stream_entry (created_at);

create table sink (
  account_id text not null,
  name text not null,
  created_at bigint not null,
  updated_at bigint not null,
  kind text not null,
  settings text not null,
  sealed text,
  status text not null,
  disabled_reason text,
  due_at bigint not null,
  lease text,
  tries bigint not null,
  failing_since bigint,
  last_error text,
  delivered_at bigint,
  primary key (account_id, name)
);

create index sink_by_due on sink (due_at) where status = 'active';

create table sink_entry (
  account_id text not null,
  sink text not null,
  call_id text not null,
  created_at bigint not null,
  object text,
  primary key (account_id, sink, call_id)
);

create index sink_entry_by_age on sink_entry (created_at);

create table event (
  id text primary key,
  account_id text not null,
  type text not null,
  created_at bigint not null,
  data text not null,
  emailed_at bigint
);

create index event_by_account on event (account_id, id);

create index event_by_age on event (created_at);

create index event_to_email on event (id) where emailed_at is null;

create table webhook_delivery (
  id text primary key,
  webhook_id text not null,
  account_id text not null,
  event_id text not null,
  status text not null,
  tries bigint not null,
  due_at bigint not null,
  lease text,
  attempts text not null,
  created_at bigint not null,
  ended_at bigint
);

create index webhook_delivery_by_age on webhook_delivery (created_at);

create index webhook_delivery_by_due on webhook_delivery (status, due_at);

create index webhook_delivery_by_webhook on webhook_delivery (webhook_id, id);

create table webhook (
  id text primary key,
  account_id text not null,
  url text not null,
  events text not null,
  description text,
  status text not null,
  disabled_reason text,
  sealed text,
  former_sealed text,
  former_until bigint not null,
  failing_since bigint,
  created_at bigint not null
);

create index webhook_by_account on webhook (account_id, id);

-- email

create table email (
  id text primary key,
  account_id text not null,
  type text not null,
  address text not null,
  person_id text,
  data text not null,
  status text not null,
  tries bigint not null,
  due_at bigint not null,
  lease text,
  error text,
  created_at bigint not null,
  ended_at bigint
);

create index email_by_address on email (address, created_at);

create index email_by_age on email (created_at);

create index email_by_due on email (status, due_at);

create table email_opt_out (
  person_id text not null,
  category text not null,
  primary key (person_id, category)
);

-- status

create table incident_update (
  id text primary key,
  incident_id text not null,
  at bigint not null,
  title text not null,
  impact text not null,
  state text not null,
  message text not null
);
create index incident_update_incident on incident_update (incident_id, id);
create index incident_update_at on incident_update (at);

-- service-levels

create table service_level (
  id text primary key,
  model text not null,
  metric text not null,
  target bigint not null,
  period text not null,
  credit_percent bigint not null,
  cap_nano bigint not null,
  starts_at bigint not null,
  ended_at bigint,
  evaluated_to bigint not null
);

create table service_credit (
  account_id text not null,
  id text not null,
  level_id text not null,
  model text not null,
  window_start bigint not null,
  window_end bigint not null,
  amount bigint not null check (amount > 0),
  reason text not null,
  created_at bigint not null,
  primary key (account_id, id),
  unique (account_id, level_id, model, window_start)
);

-- operator

create table operator_request (
  id text primary key,
  account_id text not null,
  fields text not null,
  requested_by text not null,
  requested_at bigint not null,
  state text not null,
  decided_by text,
  decided_at bigint
);

create index operator_request_by_state on operator_request (state, id);

create table operator_block (
  kind text not null,
  value text not null,
  reason text not null,
  created_by text not null,
  created_at bigint not null,
  primary key (kind, value)
);

create table operator_limit (
  name text primary key,
  value text not null
);

create table operator_session (
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

create table open_circuits (
  process text primary key,
  circuits text not null
);

-- server

create table secret_check (
  id text primary key,
  first_used_at bigint not null
);

-- signing

create table signing_key (
  number bigint primary key,
  public_key text not null,
  created_at bigint not null
);

-- ledger-proofs

create table ledger_day (
  number bigint primary key,
  day text not null unique,
  record text not null,
  published_at bigint not null
);

create table ledger_proof_page (
  day text not null,
  root text not null,
  page bigint not null,
  content bytea not null,
  primary key (day, root, page)
);
