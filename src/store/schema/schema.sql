-- All tables, version 1 of the schema.
-- `without rowid` is SQLite's only and left out on PostgreSQL. It stores rows in the tree of the primary key: one page to write per row instead of two. Exceptions are tables
-- to which many accounts append, whose rows would be scattered over the tree, and tables with large values: to compare a key
-- with that of a row, SQLite reads the whole row from this tree.

-- accounts

-- A workspace: created by an agent or in the console.
create table account (
  id text primary key,
  email text, -- contact address, if the agent gave one
  created_at bigint not null,
  created_from text not null, -- network of the creator
  claimed_at bigint, -- when a person claimed it; null while unclaimed
  name text, -- name of the workspace
  created_by text, -- person who created it in the console; null for an agent
  erased_at bigint, -- when the personal data of the closed account was erased
  verified_agent text, -- origin of the listed operator whose agent signed the creation
  sso_required_at bigint, -- since when members must sign in with the workspace's identity provider; null if they need not
  signs_receipts bigint not null default 0, -- 1: every call of its keys gets a signed receipt
  prompt_retention_days bigint, -- days until logged prompts are deleted; null for the operator's setting
  exports_usage bigint not null default 0, -- 1: the usage of its calls is queued for sinks
  data_policy text -- what providers may do with the data of its calls: `zdr, region=eu`; null for no rules
) without rowid;

create index account_by_creator on account (created_by);

create index account_by_verified_agent on account (verified_agent, id) where verified_agent is not null;

-- Counts new accounts per network and hour.
-- Deleted: after 2 days
create table account_creation (
  prefix text not null, -- network
  hour bigint not null, -- start of the hour
  created bigint not null, -- number of accounts
  granted bigint not null, -- starting credit granted, in nano-dollars
  primary key (prefix, hour)
) without rowid;

-- Proof-of-work challenges that were used, so that none is used twice.
-- Deleted: when they expire, after 10 minutes
create table solved_challenge (
  challenge text not null primary key,
  expires_at bigint not null
);

-- The members of a claimed account.
-- Deleted: when the member is removed
create table membership (
  account_id text not null,
  person_id text not null,
  role text not null, -- `owner`, `admin`, `developer`, `billing` or `viewer`
  owner_of text unique, -- the account for its owner, else null: an account has one owner
  added_at bigint not null,
  via text not null, -- what added the member, such as an invitation or a claim attempt
  allowance_nano bigint, -- what the keys of a developer may spend together
  allowance_window text, -- how often the allowance resets; null for never
  via_key_id text, -- key whose claim link the member used
  allowance_requested_at bigint, -- since when a developer waits for an allowance
  primary key (account_id, person_id)
) without rowid;

create index membership_by_person on membership (person_id, account_id);

-- Open invitations to a workspace.
-- Deleted: when accepted, withdrawn or replaced
create table invitation (
  id text primary key,
  account_id text not null,
  email text not null, -- invited address
  invited_by text not null, -- person
  created_at bigint not null,
  expires_at bigint not null,
  role text not null default 'developer', -- role of the new member
  allowance_nano bigint, -- allowance of the new member
  allowance_window text, -- how often it resets; null for never
  unique (account_id, email)
) without rowid;

create index invitation_by_email on invitation (email, id);

-- keys

-- API keys. The raw key is not stored.
create table api_key (
  id text primary key,
  account_id text not null,
  hash text not null unique, -- fingerprint of the raw key
  name text,
  prefix text not null, -- first characters of the raw key
  last4 text not null, -- last characters of the raw key
  created_at bigint not null,
  last_used_at bigint,
  expires_at bigint,
  revoked_at bigint,
  limit_nano bigint, -- spending limit; null for none
  limit_window text, -- how often the limit resets; null for never
  scopes text, -- names, separated by spaces; null for all
  created_by text, -- key or person that created it
  policy text, -- JSON: allowed models, providers, price and rates
  alert_percents text, -- shares of the limit that emit an event
  secret_id text, -- master secret of the fingerprint
  expiry_event_for bigint, -- expiry for which `key.expiring` was emitted
  former_hash text unique, -- fingerprint of the raw key before the rotation
  former_last4 text, -- its last characters
  former_until bigint, -- until when it is accepted too
  former_last_used_at bigint,
  app text, -- app that got it by a person's consent
  chain_reference text unique, -- what keys derived from it name it by
  chain_secret text, -- encrypted: the first secret of their signatures
  ancestors text, -- ids of the keys that it was derived from, separated by spaces
  credential text -- JSON: what authenticates it instead of a secret
) without rowid;

create index api_key_by_account on api_key (account_id, id);

create index api_key_by_expiry on api_key (expires_at);

-- people

-- People who have signed in.
create table person (
  id text primary key,
  issuer text not null, -- identity provider
  subject text not null, -- id at the identity provider
  email text not null,
  name text,
  created_at bigint not null,
  signed_in_at bigint not null, -- last sign-in
  time_zone text, -- time zone for pages; null for UTC
  sso_account_id text not null default '', -- workspace whose identity provider signs the person in; empty for that of the gateway
  unique (issuer, subject, sso_account_id)
) without rowid;

create index person_by_email on person (email);

create index person_by_sso on person (sso_account_id) where sso_account_id <> '';

-- Sign-in sessions of people.
-- Deleted: 7 days after they end
create table session (
  id text primary key,
  hash text not null unique, -- fingerprint of the cookie
  person_id text not null,
  created_at bigint not null,
  seen_at bigint not null, -- last request
  expires_at bigint not null,
  ended_at bigint,
  network text not null,
  browser text not null
) without rowid;

create index session_by_person on session (person_id, id);

-- sso

-- Email domains of workspaces, which a DNS record proves.
create table workspace_domain (
  account_id text not null,
  domain text not null, -- ASCII form in lower case
  token text not null, -- what the TXT record contains
  created_at bigint not null,
  verified_at bigint, -- null until the record was found, and after it was missing for too long
  verified_domain text unique, -- the domain while it is verified: it belongs to one workspace
  checked_at bigint, -- last query of the record
  missing_since bigint, -- since when the record of a verified domain is missing
  primary key (account_id, domain)
) without rowid;

create index workspace_domain_by_check on workspace_domain (checked_at) where verified_domain is not null;

-- Identity providers of workspaces.
create table sso_connection (
  account_id text primary key,
  id text not null, -- another one for each issuer and client
  issuer text not null, -- identity provider
  client_id text not null, -- of the gateway at the issuer
  sealed text, -- encrypted client secret; null for a public client
  default_role text, -- role of people who sign in without being members; null to refuse them
  created_at bigint not null,
  signed_in_at bigint -- last sign-in
) without rowid;

-- scim

-- Workspaces whose members a directory manages with SCIM.
create table scim_directory (
  account_id text primary key,
  token_hash text not null unique, -- SHA-256 of the bearer token
  last4 text not null, -- last characters of the token
  former_hash text unique, -- of the token before the rotation
  former_until bigint not null, -- until when the former token is accepted too
  fallback_role text not null, -- role of people in no group with a role
  hands_over_keys bigint not null, -- 1 if the owner gets the keys of people who leave, 0 if they are revoked
  created_at bigint not null,
  used_at bigint -- last request of the directory
) without rowid;

-- Users of a directory, with and without a sign-in.
create table scim_user (
  account_id text not null,
  id text not null,
  user_name text not null, -- as the directory writes it
  user_name_folded text not null, -- in lower case
  email text not null, -- as the directory writes it
  email_folded text not null, -- in its comparable form
  external_id text, -- id in the directory
  active bigint not null, -- 0 if the person has left
  display_name text, -- name as the directory shows it
  given_name text, -- first name
  family_name text, -- last name
  person_id text, -- the member that the user is; null until a sign-in
  created_at bigint not null,
  changed_at bigint not null, -- last change by the directory
  primary key (account_id, id),
  unique (account_id, user_name_folded)
) without rowid;

create index scim_user_by_email on scim_user (account_id, email_folded);

-- Groups of a directory, which can have a role.
create table scim_group (
  account_id text not null,
  id text not null,
  display_name text not null, -- name as the directory writes it
  display_name_folded text not null, -- in lower case
  external_id text, -- id in the directory
  role text, -- role of its members; null for none
  created_at bigint not null,
  changed_at bigint not null, -- last change by the directory
  primary key (account_id, id),
  unique (account_id, display_name_folded)
) without rowid;

-- Which users are in which groups.
create table scim_group_member (
  account_id text not null,
  group_id text not null, -- of scim_group
  user_id text not null, -- of scim_user
  primary key (account_id, group_id, user_id)
) without rowid;

create index scim_group_member_by_user on scim_group_member (account_id, user_id);

-- claims

-- Claims that an agent started: a link and a code for a person.
create table claim_attempt (
  id text primary key,
  account_id text not null,
  ordinal bigint not null, -- number of the attempt within the account
  key_id text not null, -- key that started it
  email text not null, -- address of the person
  email_folded text not null, -- address in its comparable form
  token_hash text not null unique, -- fingerprint of the token in the link
  code_hash text not null, -- fingerprint of the code
  network text not null, -- network that started it
  invitation bigint not null, -- 1 if it adds a member to a claimed account
  created_at bigint not null,
  expires_at bigint not null,
  wrong_codes bigint not null, -- number of wrong codes
  interval_ms bigint not null, -- least time between two polls
  polled_at bigint, -- last poll
  superseded_at bigint, -- when a later attempt replaced it
  declined_at bigint,
  claimed_at bigint,
  claimed_by text, -- person
  claimed_role text, -- role that the person got
  bonus bigint not null -- credit granted, in nano-dollars
) without rowid;

create index claim_attempt_by_account on claim_attempt (account_id, ordinal);

create index claim_attempt_by_email on claim_attempt (email_folded, id);

-- Counts claims per network, address and key.
-- Deleted: after a day
create table claim_count (
  scope text not null, -- what is counted, such as a network or an address
  slot bigint not null, -- start of the time slot
  counted bigint not null, -- number
  primary key (scope, slot)
) without rowid;

-- Sign-ins of programs on devices without a browser.
-- Deleted: an hour after they expire
create table device_login (
  id text primary key,
  device_code_hash text not null unique, -- fingerprint of the program's code
  user_code_hash text not null unique, -- fingerprint of the code that a person enters
  client text not null, -- name that the program gave itself
  network text not null, -- network that asked for the code
  created_at bigint not null,
  expires_at bigint not null,
  interval_ms bigint not null, -- least time between two polls
  polled_at bigint, -- last poll
  approved_at bigint,
  denied_at bigint,
  person_id text, -- person who approved
  account_id text, -- workspace that the person chose
  limit_nano bigint, -- limit of the key
  limit_window text, -- when the limit resets
  key_id text -- key that the program got
) without rowid;

-- Authorization codes of sign-ins of apps and at the MCP server.
-- Deleted: an hour after they expire
create table authorization_code (
  id text primary key,
  code_hash text not null unique, -- fingerprint of the code
  client_id text not null, -- URL of a metadata document, a registration, or the origin of an app
  client_name text not null, -- name that the client gave itself
  redirect_uri text not null, -- where the code was sent
  resource text not null, -- URL of what the client wants to call
  key_name text not null, -- of the key that the client gets
  key_lifetime_ms bigint, -- null for a key that does not expire
  models text, -- JSON: the models that the key may call; null for all
  code_challenge text not null, -- S256 of the client's verifier
  scopes text not null, -- of the key, separated by spaces
  limit_nano bigint not null, -- limit of the key
  limit_window text, -- when the limit resets
  account_id text not null, -- workspace that the person chose
  person_id text not null, -- person who consented
  created_at bigint not null,
  expires_at bigint not null,
  key_id text -- key that the client got
) without rowid;

-- Sessions at the MCP server that created an account.
-- Deleted: when they expire
create table mcp_session (
  id_hash text primary key, -- fingerprint of the session's id
  key_id text not null, -- key of the account that the session created
  created_at bigint not null,
  expires_at bigint not null
) without rowid;

-- Which person has had the claim bonus.
-- Deleted: when the bonus is taken back
create table human_grant (
  id text primary key,
  issuer text not null, -- identity provider
  subject text not null, -- id at the identity provider
  mailbox text not null unique, -- keyed hash of the mailbox
  account_id text not null,
  amount bigint not null, -- nano-dollars
  granted_at bigint not null,
  unique (issuer, subject)
) without rowid;

-- ledger

-- The balance of an account. Changed only together with a transfer.
create table wallet (
  account_id text primary key,
  promo bigint not null check (promo >= 0), -- promotional credit, in nano-dollars
  paid bigint not null check (paid >= 0), -- paid credit, in nano-dollars
  held bigint not null check (held >= 0), -- sum of the holds, in nano-dollars
  low_at bigint not null default 1000000000, -- balance below which `balance.low` is emitted
  owed bigint not null default 0, -- debt after returned payments, in nano-dollars
  top_up_at bigint not null default 0, -- balance below which auto top-up buys; 0 for never
  day_budget bigint, -- budget per UTC day; null for none
  month_budget bigint, -- budget per UTC month; null for none
  day_start bigint, -- start of the counted day
  day_spent bigint, -- spent on that day
  month_start bigint, -- start of the counted month
  month_spent bigint, -- spent in that month
  frozen_at bigint, -- when an operator froze the account
  frozen_reason text,
  written_off bigint not null default 0, -- debt that was written off, in nano-dollars
  closing_at bigint -- when the account was closed
) without rowid;

create index wallet_by_closing on wallet (closing_at) where closing_at is not null;

create index wallet_with_debt on wallet (account_id) where owed > 0;

-- The spend of an API key, by which its limits are enforced.
create table spender (
  key_id text not null,
  account_id text not null,
  held bigint not null check (held >= 0), -- sum of the holds of the key, in nano-dollars
  open_calls bigint not null check (open_calls >= 0), -- number of holds of the key
  paced_until bigint not null, -- theoretical arrival time of the next request (GCRA)
  total_spent bigint not null, -- nano-dollars
  day_start bigint not null, -- start of the counted day
  day_spent bigint not null,
  week_start bigint not null, -- start of the counted week
  week_spent bigint not null,
  month_start bigint not null, -- start of the counted month
  month_spent bigint not null,
  primary key (key_id, account_id)
) without rowid;

create index spender_by_account on spender (account_id);

-- Upper bounds of the cost of running calls and batches.
-- Deleted: when the call is settled or released, or when the batch has ended
create table hold (
  id text not null, -- id of the call or the batch
  account_id text not null,
  key_id text not null,
  amount bigint not null check (amount >= 0), -- nano-dollars
  process text not null, -- process that runs the call; empty for the hold of a batch
  epoch bigint not null, -- run of that process
  created_at bigint not null,
  expires_at bigint not null, -- when the hold is released at the latest
  session_id text, -- session of the call, if it has one
  calls bigint not null default 1, -- calls that it counts as: 0 for a batch, any number for a lease
  lease bigint, -- null for the hold of one call; of a lease: 1 open, 2 recalled, 3 closed
  primary key (id, account_id)
) without rowid;

-- Holds of dead processes that were released: a late settlement still charges, once.
-- Deleted: after 7 days
create table swept_hold (
  id text not null, -- id of the call
  account_id text not null,
  key_id text not null,
  amount bigint not null, -- nano-dollars
  swept_at bigint not null,
  reason text not null, -- why it was released
  session_id text, -- session of the call, if it has one
  primary key (id, account_id)
) without rowid;

-- Sessions of agents: what their calls hold and have spent, by which their limits are enforced.
-- Deleted: 30 days after the last call or the stop, or beyond the limit of an account, those first that were used longest ago
create table agent_session (
  account_id text not null,
  id text not null, -- from a header of the caller
  key_id text not null, -- key of its first call
  created_at bigint not null,
  last_call_at bigint not null,
  limit_nano bigint, -- limit of its spend, in nano-dollars; null for none
  held bigint not null check (held >= 0), -- sum of its holds, in nano-dollars
  spent bigint not null check (spent >= 0), -- cost of its calls, in nano-dollars
  stopped_at bigint, -- when it was stopped; its calls are refused since
  primary key (account_id, id)
) without rowid;

create index agent_session_by_start on agent_session (account_id, created_at, id);

create index agent_session_by_use on agent_session (last_call_at);

create index agent_session_by_stop on agent_session (stopped_at) where stopped_at is not null;

-- Movements of money that are not columns of a usage record. Never changed or deleted.
create table transfer (
  account_id text not null, -- account whose wallet is concerned
  id text not null, -- unique, so a repeated transfer is found
  from_account text not null, -- ledger account
  to_account text not null, -- ledger account
  amount bigint not null check (amount > 0), -- nano-dollars, positive
  kind text not null, -- such as `grant`, `purchase` or `usage`
  ref text not null, -- what it belongs to, such as a payment or a call
  at bigint not null,
  memo text, -- an operator's reason
  primary key (account_id, id)
);

create index transfer_by_time on transfer (account_id, at);

-- Sums of verified calls, so that the next verification reads only later ones.
-- Deleted: when a newer checkpoint of the key exists
create table ledger_checkpoint (
  account_id text not null,
  key_id text not null, -- empty for archived calls
  through_id text not null, -- calls before this id are summed
  promo_nano bigint not null,
  paid_nano bigint not null,
  overrun_nano bigint not null,
  primary key (account_id, key_id, through_id)
) without rowid;

-- Processes of the gateway with their heartbeats.
create table process (
  name text primary key, -- `POSTERN_PROCESS_NAME`
  epoch bigint not null, -- run of this name: that of a later start is greater
  started_at bigint not null,
  seen_at bigint not null, -- heartbeat, every 5 seconds
  stopped_at bigint -- when it ended its work; null while it runs, and after a kill
) without rowid;

-- usage

-- One row per call, with what it was charged.
-- Deleted: after `POSTERN_USAGE_RETENTION_DAYS`, into files; kept without that setting
create table usage_record (
  account_id text not null,
  id text not null, -- id of the call
  key_id text not null,
  created_at bigint not null,
  day text not null, -- UTC date
  model text not null,
  provider text not null,
  api text not null, -- `chat`, `responses`, `messages` or another API
  stream bigint not null, -- 1 for a stream
  outcome text not null, -- `completed`, `client_aborted` or the kind of failure
  status bigint not null, -- HTTP status of the reply
  input_tokens bigint not null,
  cache_read_tokens bigint not null,
  cache_write_tokens bigint not null,
  output_tokens bigint not null,
  reasoning_tokens bigint not null,
  cost_nano bigint not null, -- cost of the call
  byok bigint not null, -- 1 on a caller's own provider key
  exact bigint not null, -- 0 if usage was estimated
  latency_ms bigint not null,
  first_token_ms bigint,
  detail text not null, -- JSON: price, attempts, request id and more
  labels text, -- labels of the caller
  promo_nano bigint, -- charged to promotional credit
  paid_nano bigint, -- charged to paid credit
  overrun_nano bigint, -- cost beyond the balance
  charged_at bigint, -- when it was charged; null without a charge
  primary key (account_id, id)
);

create index usage_record_late on usage_record (account_id, charged_at) where charged_at - created_at > 7200000;

-- Model calls that were refused before a provider was called: free, and bounded per account and day.
-- Deleted: after 30 days
create table refused_call (
  account_id text not null,
  id text not null, -- id of the request
  key_id text not null,
  created_at bigint not null,
  path text not null, -- path of the endpoint
  model text, -- model of the request, if it could be read
  status bigint not null, -- HTTP status
  code text not null, -- code of the error
  message text not null, -- public message of the error
  primary key (account_id, id)
) without rowid;

create index refused_call_by_age on refused_call (created_at);

-- Sums of the calls of each agent of a session.
-- Deleted: 30 days after the agent's last call
create table session_usage (
  account_id text not null,
  session_id text not null, -- id of the session
  agent text not null, -- empty for the main agent
  parent_agent text not null, -- empty if the main agent started it
  calls bigint not null,
  errors bigint not null, -- calls that failed
  input_tokens bigint not null,
  output_tokens bigint not null,
  cost_nano bigint not null, -- nano-dollars
  first_at bigint not null, -- its first call
  last_at bigint not null, -- its last call
  primary key (account_id, session_id, agent)
) without rowid;

create index session_usage_by_use on session_usage (last_at);

-- A queue of what batches of calls add to the roll-ups.
-- Deleted: within seconds, by the roll-up job
create table usage_pending (
  account_id text not null, -- account of the batch; empty if it has calls of several
  id text not null, -- id of the first call of the batch
  deltas text not null, -- JSON: what to add to the roll-ups
  failures text, -- JSON: failures of providers
  charges text, -- JSON: what to add to the charges by hour
  credentials text, -- JSON: what to add to the figures of the keys of the models file
  primary key (id, account_id)
) without rowid;

-- Sums of usage by hour and by UTC day.
create table usage_rollup (
  account_id text not null,
  unit text not null, -- `hour` or `day`
  at bigint not null, -- start of the hour or day
  label text not null, -- empty in the rows of all calls; each label has further rows
  key_id text not null,
  model text not null,
  provider text not null,
  api text not null,
  byok bigint not null, -- 1 on callers' own provider keys
  calls bigint not null,
  errors bigint not null,
  aborted bigint not null, -- calls whose client left
  estimated bigint not null, -- calls without exact usage
  input_tokens bigint not null,
  cache_read_tokens bigint not null,
  cache_write_tokens bigint not null,
  output_tokens bigint not null,
  reasoning_tokens bigint not null,
  cost_nano bigint not null,
  list_nano bigint not null, -- list price of calls on callers' own keys
  latency_ms bigint not null, -- sum
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
) without rowid;

-- Sums over all accounts by hour, provider and model, for the health of providers.
-- Deleted: after 92 days
create table provider_hour (
  at bigint not null, -- start of the hour
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
) without rowid;

-- Calls of each key that the models file adds to a provider, over all accounts.
create table credential_hour (
  at bigint not null, -- start of the hour
  provider text not null,
  credential text not null, -- name of the key
  calls bigint not null,
  failures bigint not null, -- attempts that failed because of the provider
  cost_nano bigint not null,
  primary key (at, provider, credential)
) without rowid;

-- What calls of all accounts were charged, by hour.
create table charge_hour (
  at bigint primary key, -- start of the hour
  promo_nano bigint not null,
  paid_nano bigint not null,
  overrun_nano bigint not null
) without rowid;

-- Sums of archived usage records, which prove the transfers that stay.
create table usage_archive (
  account_id text not null,
  key_id text not null,
  calls bigint not null,
  cost_nano bigint not null,
  charged_nano bigint not null,
  last_at bigint not null, -- time of the last charge
  through_id text not null, -- records up to this id were archived
  primary key (account_id, key_id)
) without rowid;

-- idempotency

-- Requests with an `Idempotency-Key` and their replies, encrypted.
-- Deleted: after 24 hours
create table idempotent_answer (
  account_id text not null, -- account of the caller, or the id for a caller without one
  id text not null, -- hash of the caller and the key
  fingerprint text not null, -- hash of the request
  state text not null, -- `running` or `done`
  hold_id text, -- hold of the call, if it is one
  status bigint, -- HTTP status of the reply
  created_at bigint not null,
  expires_at bigint not null,
  sealed text, -- encrypted reply
  process text, -- process that runs the call
  epoch bigint, -- run of that process
  primary key (account_id, id)
);

create index idempotent_answer_by_expiry on idempotent_answer (expires_at);

create index idempotent_answer_running on idempotent_answer (process) where state = 'running';

-- provider-keys

-- Callers' own keys at providers, encrypted.
create table provider_key (
  id text primary key,
  account_id text not null,
  provider text not null,
  name text,
  last4 text not null,
  status text not null, -- `active`, `unchecked` or `deleted`
  sealed text, -- encrypted key
  data_key text, -- wrapped data key
  created_at bigint not null,
  last_used_at bigint,
  deleted_at bigint,
  key_id text, -- API key that added it; null for a person
  api_key_ids text, -- API keys that may use it; null for all
  allow_store bigint not null default 0 -- 1 if the provider may store calls
) without rowid;

create index provider_key_by_account on provider_key (account_id, id);

create index provider_key_by_provider on provider_key (account_id, provider, id);

-- responses

-- What checks the requests and replies of a workspace.
create table guardrail (
  account_id text not null,
  name text not null,
  created_at bigint not null,
  updated_at bigint not null, -- of all guardrails of the account: the newest is part of a cached key
  settings text not null, -- JSON: patterns, or a hook
  primary key (account_id, name)
) without rowid;

-- MCP servers whose tools the calls of a workspace may use.
create table mcp_server (
  account_id text not null,
  name text not null,
  created_at bigint not null,
  updated_at bigint not null,
  settings text not null, -- JSON: URL, allowed tools, names of headers
  sealed text, -- the headers, encrypted
  primary key (account_id, name)
) without rowid;

-- Settings of model calls under a name.
create table preset (
  account_id text not null,
  name text not null,
  version bigint not null, -- counted from 1; a version never changes
  created_at bigint not null,
  settings text not null, -- JSON: fields of the body of a call
  primary key (account_id, name, version)
) without rowid;

-- What an account itself lets the gateway store of its responses.
create table response_storage (
  account_id text primary key,
  mode text not null, -- `by_default`, `on_request` or `never`
  retention_days bigint not null -- days until a stored response is deleted
) without rowid;

-- Requests and replies of keys with prompt logging, encrypted.
-- Deleted: when they expire
create table prompt_log (
  id text primary key, -- of the call
  account_id text not null,
  created_at bigint not null,
  expires_at bigint not null,
  data_key text not null, -- wrapped data key
  sealed_request bytea not null, -- encrypted request
  sealed_reply bytea -- null if the caller got no reply
) without rowid;

create index prompt_log_by_account on prompt_log (account_id);

create index prompt_log_by_expiry on prompt_log (expires_at);

-- Responses of `/v1/responses`, encrypted.
-- Deleted: when they expire, or beyond the limits of an account, the oldest first
create table stored_response (
  id text primary key,
  account_id text not null,
  key_id text not null, -- key that created it
  previous_id text, -- response that it continues
  status text not null, -- `queued`, `in_progress`, `completed` or another state of the API
  background bigint not null, -- 1 for a background response
  hold_id text not null, -- hold of its call; while it is queued, its batch
  origin text, -- provider, provider account and model of its reasoning
  bytes bigint not null,
  data_key text not null, -- wrapped data key
  created_at bigint not null,
  expires_at bigint not null,
  sealed_record bytea, -- encrypted input and response, as bytes
  sealed_input text not null, -- encrypted input while it runs
  sealed_response text not null -- encrypted response while it runs
);

create index stored_response_by_age on stored_response (account_id, created_at, bytes);

create index stored_response_by_expiry on stored_response (expires_at);

create index stored_response_in_progress on stored_response (created_at) where status = 'in_progress';

-- Which stored response has an item, for references by id.
-- Deleted: with its response
create table stored_item (
  account_id text not null,
  id text not null, -- id of the item
  response_id text not null,
  primary key (account_id, id)
) without rowid;

create index stored_item_by_response on stored_item (response_id);

-- The events of a background stream, encrypted.
-- Deleted: with its response
create table stored_stream (
  response_id text not null,
  part bigint not null, -- number of the part
  last_sequence bigint not null, -- sequence number of its last event
  sealed_events text not null, -- encrypted events
  primary key (response_id, part)
) without rowid;

-- batches

-- Batches of calls.
-- Deleted: 30 days after the batch was created, or by its account
create table batch (
  id text primary key,
  account_id text not null,
  key_id text not null, -- key that created it and pays for its calls
  form text not null, -- `openai` or `messages`: the API that created it
  endpoint text not null, -- path of its calls
  status text not null, -- `validating`, `in_progress`, `canceling`, `completed`, `expired` or `canceled`
  provider text, -- provider that runs it; null if the gateway does
  requests bigint not null, -- number of its items
  bytes bigint not null, -- length of its requests and results
  headers text not null, -- headers of its calls, as JSON
  metadata text, -- of the caller, as JSON
  input_file_id text, -- file with its requests; null if they were in the body
  response_id text, -- background response that its only item completes: it is no batch of the API then
  request_sha256 text, -- hash of the request of that response as it was received, for a receipt
  output_file_id text, -- file with the results, once it has ended
  error_file_id text, -- file with the errors, once it has ended
  data_key text not null, -- wrapped data key
  created_at bigint not null,
  started_at bigint, -- when its cost was held
  expires_at bigint not null, -- when items that were not run expire
  cancel_at bigint, -- when it was canceled
  ended_at bigint,
  succeeded bigint not null, -- numbers of items, once it has ended
  errored bigint not null, -- as `succeeded`
  canceled bigint not null, -- as `succeeded`
  expired bigint not null, -- as `succeeded`
  cost bigint not null, -- sum of its items in nano-dollars, once it has ended
  process text, -- process that runs it
  epoch bigint, -- run of that process
  due_at bigint not null default 0 -- when a process may run it next
);

create index batch_by_account on batch (account_id, id);

create index batch_unfinished on batch (id) where ended_at is null;

create index batch_waiting on batch (account_id, id) where ended_at is null and process is null;

create index batch_by_age on batch (created_at);

create index batch_use on batch (account_id, ended_at, status, bytes);

-- The calls of a batch.
-- Deleted: with its batch
create table batch_item (
  batch_id text not null, -- its batch
  position bigint not null, -- in the order of the requests
  custom_id text not null, -- of the caller
  status text not null, -- `pending`, `succeeded`, `errored`, `canceled` or `expired`
  share bigint not null, -- nano-dollars that the hold of the batch has for it
  cost bigint not null, -- nano-dollars
  failures bigint not null default 0, -- how often its provider has failed
  http_status bigint, -- of its response
  request_id text, -- call that ended it, which has a usage record
  sealed_request bytea, -- encrypted, until it ends
  sealed_result bytea, -- encrypted body of the response or the error
  target text, -- where a provider can run it, as JSON
  batch_share bigint, -- `share` if a provider runs it
  provider_batch_id text, -- batch of the provider that it is a part of
  primary key (batch_id, position)
);

create index batch_item_pending on batch_item (batch_id, position) where status = 'pending';

create index batch_item_counts on batch_item (batch_id, status, cost);

-- Batches at providers, each with items of one batch and one model.
-- Deleted: with its batch
create table provider_batch (
  id text primary key,
  batch_id text not null, -- its batch
  target text not null, -- provider, key, model and wire, as JSON
  state text not null, -- `planned`, `sending`, `sent` or `ended`
  attempts bigint not null, -- number of the last submission
  attempted_at bigint, -- when it began
  remote_id text, -- id at the provider
  remote_file_id text -- file with its requests at the provider
);

create index provider_batch_by_batch on provider_batch (batch_id);

create index provider_batch_by_remote on provider_batch (remote_id);

-- Files with the input and the output of batches.
-- Deleted: when they expire, or by their account
create table stored_file (
  id text primary key,
  account_id text not null,
  key_id text not null, -- key that uploaded it or created its batch
  purpose text not null, -- `batch` or `batch_output`
  filename text not null, -- as the caller named it
  bytes bigint not null,
  parts bigint, -- number of its parts; null until all of it was uploaded
  batch_id text, -- batch whose results it has: such a file has no parts
  data_key text not null, -- wrapped data key
  created_at bigint not null,
  expires_at bigint not null
);

create index stored_file_by_account on stored_file (account_id, id);

create index stored_file_by_expiry on stored_file (expires_at);

-- The content of files.
-- Deleted: with its file
create table stored_file_part (
  file_id text not null, -- its file
  part bigint not null, -- number of the part
  sealed bytea not null, -- encrypted
  primary key (file_id, part)
);

-- billing

-- Purchases of credit.
create table invoice (
  id text primary key,
  account_id text not null,
  status text not null, -- `open`, `paid` or `void`
  credits bigint not null check (credits > 0), -- credits to buy
  total_cents bigint not null check (total_cents * 10000 >= credits), -- price with fee, without tax
  tax_cents bigint not null check (tax_cents >= 0),
  created_at bigint not null,
  paid_at bigint,
  voided_at bigint,
  buyer text, -- billing details at the time of the payment, as JSON; null until it is paid
  number bigint unique -- in the order of payment, without gaps; null until it is paid
) without rowid;

create index invoice_by_account on invoice (account_id, id);

create index invoice_by_status on invoice (account_id, status);

-- What invoices of an account say about the buyer, and who gets its receipts.
create table billing_details (
  account_id text primary key,
  name text, -- legal name of the buyer
  address text, -- lines of a postal address
  tax_id text, -- VAT or another tax number
  po_number text, -- number of the buyer's purchase order
  contacts text not null -- email addresses that get receipts, one a line
) without rowid;

-- The last number of paid invoices.
create table invoice_series (
  id text primary key, -- `invoice`
  last bigint not null -- number of the invoice that was paid last
) without rowid;

-- Checkout pages of a payment processor for an invoice.
create table checkout (
  id text primary key,
  invoice_id text not null,
  processor text not null, -- `stripe` or another processor
  ref text not null, -- id at the processor
  state text not null,
  created_at bigint not null,
  looked_at bigint not null, -- last time the processor was asked
  due_at bigint -- when it is asked again; null for never
) without rowid;

create index checkout_by_due on checkout (due_at);

create index checkout_by_invoice on checkout (invoice_id, id);

-- What was paid for an invoice, refunded and disputed.
create table payment (
  id text primary key, -- id at the processor
  invoice_id text not null,
  account_id text not null,
  processor text not null,
  state text not null,
  reason text, -- why it is not credited
  currency text not null,
  amount_cents bigint not null, -- paid in total
  credits bigint not null, -- credits of the payment
  tax_cents bigint not null,
  refunded_cents bigint not null,
  disputed_cents bigint not null,
  paid_at bigint not null
) without rowid;

create index payment_by_invoice on payment (invoice_id, id);

-- What a payment processor reported. Each fact is applied once.
create table payment_fact (
  id text primary key,
  processor text not null,
  ref text not null, -- id at the processor
  kind text not null, -- `paid`, `refunded`, `disputed` and others
  payment_id text not null,
  invoice_id text not null,
  amount_cents bigint not null,
  tax_cents bigint not null,
  currency text not null,
  at bigint not null, -- time at the processor
  received_at bigint not null, -- when it arrived
  state text not null, -- `applied`, `waiting` or `aside`
  reason text -- why it was not applied
) without rowid;

create index payment_fact_by_payment on payment_fact (payment_id, state);

-- Saved payment methods for auto top-up.
create table payment_method (
  id text primary key,
  account_id text not null,
  processor text not null,
  state text not null,
  customer text, -- customer at the processor
  ref text, -- method at the processor
  label text, -- such as brand and last digits
  page_ref text, -- page at the processor where it is saved
  saved_by text not null, -- person
  created_at bigint not null,
  looked_at bigint not null, -- last time the processor was asked
  due_at bigint -- when it is asked again
) without rowid;

create index payment_method_by_account on payment_method (account_id, id);

create index payment_method_by_due on payment_method (due_at);

create index payment_method_by_page on payment_method (page_ref);

-- Settings and state of auto top-up.
create table auto_top_up (
  account_id text primary key,
  status text not null,
  threshold_cents bigint not null check (threshold_cents > 0), -- balance below which it buys
  amount_cents bigint not null check (amount_cents > 0), -- what it buys
  ceiling_cents bigint not null check (ceiling_cents >= amount_cents), -- most per month
  failures bigint not null, -- failures in a row
  stopped_reason text,
  stopped_at bigint,
  ceiling_told bigint not null, -- month for which `top_up.ceiling_reached` was emitted
  due_at bigint -- when it is tried again
) without rowid;

create index auto_top_up_by_due on auto_top_up (due_at);

create index auto_top_up_by_status on auto_top_up (status, account_id);

-- Automatic purchases.
create table top_up (
  id text primary key,
  account_id text not null,
  invoice_id text not null,
  method_id text not null,
  amount_cents bigint not null check (amount_cents > 0),
  fee_cents bigint not null check (fee_cents >= 0),
  state text not null,
  open_for text unique, -- the account while it is open: one at a time
  ref text, -- payment at the processor
  reason text, -- why it failed
  created_at bigint not null,
  due_at bigint, -- when it is tried again
  ended_at bigint
) without rowid;

create index top_up_by_account on top_up (account_id, id);

create index top_up_by_due on top_up (due_at);

create index top_up_by_invoice on top_up (invoice_id, id);

-- Payments by agents: x402, shared payment tokens and Tempo.
create table agent_payment (
  id text primary key,
  account_id text not null,
  invoice_id text not null,
  made_invoice bigint not null, -- 1 if the payment created the invoice
  signed text not null, -- JSON: what the agent signed
  payer text not null, -- wallet address or token
  total_cents bigint not null,
  state text not null,
  reason text, -- why it failed or is unclear
  tx_hash text, -- transaction on the chain
  expires_at bigint not null,
  created_at bigint not null,
  due_at bigint, -- when it is looked at again
  method text not null default 'x402' -- `x402`, `stripe` or `tempo`
) without rowid;

create index agent_payment_by_due on agent_payment (due_at);

create index agent_payment_by_invoice on agent_payment (invoice_id, id);

create unique index agent_payment_by_token on agent_payment (payer) where method = 'stripe';

-- Calls that a wallet without an account pays after they ran. Inserted before the provider is called.
-- Deleted: never
create table metered_payment (
  id text primary key, -- chain, payer and nonce of the authorization
  account_id text not null,
  request_id text not null, -- call that it pays for
  payer text not null, -- wallet address
  signed text not null, -- JSON: what the wallet signed
  credit_nano bigint not null, -- most that the call can cost
  charge_nano bigint not null, -- what it cost; 0 while it runs
  amount_nano bigint not null, -- with the fee; while it runs, at most
  state text not null, -- `open`, `due`, `paid`, `released` or `lost`
  reason text, -- why it was not settled
  tx_hash text, -- transaction on the chain
  created_at bigint not null,
  expires_at bigint not null, -- end of the authorization
  due_at bigint -- when it is looked at again
) without rowid;

create index metered_payment_by_due on metered_payment (due_at);

create index metered_payment_by_transaction on metered_payment (tx_hash) where tx_hash is not null;

create index metered_payment_at_risk on metered_payment (payer) where state in ('open', 'due', 'lost');

create index agent_payment_by_unclear on agent_payment (created_at) where state = 'unclear';

-- activity

-- The audit log.
create table audit (
  id text primary key,
  account_id text, -- null for entries of operators
  at bigint not null,
  actor_type text not null, -- `key`, `person`, `operator` or `system`
  actor_id text not null,
  action text not null,
  target text, -- id of what was changed
  detail text not null, -- JSON
  network text, -- network of the actor
  ip text -- address of the actor, for the owner; null after 90 days
) without rowid;

create index audit_by_account on audit (account_id, id);

create index audit_by_actor on audit (actor_id, id);

create index audit_with_ip on audit (at) where ip is not null;

-- Where the audit log of a workspace is sent.
create table audit_stream (
  account_id text primary key,
  kind text not null, -- `webhook` or `otlp`
  url text not null,
  header_name text, -- header that authenticates the requests
  sealed text, -- encrypted value of the header
  created_at bigint not null,
  due_at bigint not null, -- when the next request may be sent
  lease text, -- request in flight
  tries bigint not null, -- failures in a row
  failing_since bigint, -- first failure in a row
  last_error text, -- of the last failure
  delivered_at bigint -- last success
) without rowid;

-- Entries that a stream has not delivered yet.
-- Deleted: when they are delivered, or 30 days later
create table audit_stream_entry (
  account_id text not null,
  audit_id text not null, -- entry of the audit log
  created_at bigint not null,
  primary key (account_id, audit_id)
) without rowid;

create index audit_stream_entry_by_age on audit_stream_entry (created_at);

-- Where the usage of an account's calls is sent.
create table sink (
  account_id text not null,
  name text not null,
  created_at bigint not null,
  updated_at bigint not null,
  kind text not null, -- `otlp` or `s3`
  settings text not null, -- JSON: destination and form
  sealed text, -- encrypted headers or secret access key
  queue text not null, -- its calls; a sink that is disabled gets another one
  status text not null, -- `active` or `disabled`
  disabled_reason text, -- why it was disabled
  due_at bigint not null, -- when the next request may be sent
  lease text, -- request in flight
  tries bigint not null, -- failures in a row
  failing_since bigint, -- first failure in a row
  last_error text, -- of the last failure
  delivered_at bigint, -- last success
  primary key (account_id, name)
) without rowid;

create index sink_by_due on sink (due_at) where status = 'active';

-- Calls that a sink has not sent yet, and those of sinks that were disabled or deleted.
-- Deleted: when they are accepted, or 7 days later
create table sink_entry (
  account_id text not null,
  queue text not null, -- that of the sink
  call_id text not null, -- usage record
  created_at bigint not null,
  object text, -- name of the object that it is a part of, once that is decided
  primary key (account_id, queue, call_id)
) without rowid;

create index sink_entry_by_age on sink_entry (created_at);

-- Events of accounts, the source of webhooks and emails.
-- Deleted: after 30 days
create table event (
  id text primary key,
  account_id text not null,
  type text not null,
  created_at bigint not null,
  data text not null, -- JSON: the payload
  emailed_at bigint -- when its emails were queued; at once if people do not get it by email
) without rowid;

create index event_by_account on event (account_id, id);

create index event_by_type on event (account_id, type, id);

create index event_by_age on event (created_at);

create index event_to_email on event (account_id, id) where emailed_at is null;

-- Events to send to webhook endpoints, with their attempts.
-- Deleted: after 30 days
create table webhook_delivery (
  id text primary key,
  webhook_id text not null,
  account_id text not null,
  event_id text not null,
  status text not null, -- `pending`, `delivered`, `failed` or `cancelled`
  tries bigint not null,
  due_at bigint not null, -- when it is sent next
  lease text, -- worker that sends it
  attempts text not null, -- JSON: the last attempts
  created_at bigint not null,
  ended_at bigint
) without rowid;

create index webhook_delivery_by_age on webhook_delivery (created_at);

create index webhook_delivery_by_due on webhook_delivery (due_at) where status = 'pending';

create index webhook_delivery_by_webhook on webhook_delivery (webhook_id, id);

create index webhook_delivery_pending on webhook_delivery (webhook_id, due_at, id) where status = 'pending';

-- Webhook endpoints.
create table webhook (
  id text primary key,
  account_id text not null,
  url text not null,
  events text not null, -- event types, separated by spaces
  description text,
  status text not null, -- `active`, `disabled` or `deleted`
  disabled_reason text,
  sealed text, -- encrypted signing secret
  former_sealed text, -- secret before the rotation
  former_until bigint not null, -- until when the former secret signs too
  failing_since bigint, -- first failure in a row
  created_at bigint not null
) without rowid;

create index webhook_by_account on webhook (account_id, id);

-- email

-- Emails to send.
-- Deleted: after 7 days
create table email (
  id text primary key,
  account_id text not null,
  type text not null,
  address text not null,
  person_id text,
  data text not null, -- JSON: what the text needs
  status text not null,
  tries bigint not null,
  due_at bigint not null, -- when it is sent next
  lease text, -- worker that sends it
  error text, -- last error
  created_at bigint not null,
  ended_at bigint
) without rowid;

create index email_by_address on email (address, created_at);

create index email_by_age on email (created_at);

create index email_by_due on email (status, due_at);

create index email_pending on email (account_id, due_at, id) where status = 'pending';

-- Which emails a person does not want.
-- Deleted: when the person opts in again
create table email_opt_out (
  person_id text not null,
  category text not null,
  primary key (person_id, category)
) without rowid;

-- status

-- What the operator wrote about incidents. The updates with one incident_id are an incident; the newest has its title and state.
-- Deleted: never
create table incident_update (
  id text primary key,
  incident_id text not null, -- the incident
  at bigint not null,
  title text not null, -- what happened
  impact text not null, -- degraded, outage or maintenance
  state text not null, -- investigating, identified, monitoring or resolved
  message text not null -- what the operator wrote
) without rowid;
create index incident_update_incident on incident_update (incident_id, id);
create index incident_update_at on incident_update (at);

-- service-levels

-- What the operator promises about models. Never changed, except that it ends: another promise is another row.
-- Deleted: never
create table service_level (
  id text primary key,
  model text not null, -- id of a model, or `*` for each of them
  metric text not null, -- `availability`, `first_token_p95`, `first_token_p99`, `slow_first_token` or `broken_reply`
  target bigint not null, -- millionths for availability, else milliseconds; 0 for broken replies
  period text not null, -- `hour`, `day` or `month`, in UTC
  credit_percent bigint not null, -- share of what the calls cost
  cap_nano bigint not null, -- most per account and UTC month, in nano-dollars
  starts_at bigint not null, -- start of its first window
  ended_at bigint, -- when it was turned off; null while it is on
  evaluated_to bigint not null -- end of the last window that was evaluated
) without rowid;

-- Credits for windows in which a service level was not met, each posted with its transfer.
-- Deleted: never
create table service_credit (
  account_id text not null,
  id text not null,
  level_id text not null, -- service level
  model text not null,
  window_start bigint not null,
  window_end bigint not null, -- exclusive
  amount bigint not null check (amount > 0), -- nano-dollars
  reason text not null, -- what was measured
  created_at bigint not null,
  primary key (account_id, id),
  unique (account_id, level_id, model, window_start)
) without rowid;

-- operator

-- Changes of accounts that wait for a second operator, or were decided by one.
create table operator_request (
  id text primary key,
  account_id text not null,
  fields text not null, -- the change with its amount and reason, as JSON
  requested_by text not null, -- email address of the operator
  requested_at bigint not null,
  state text not null, -- `pending`, `approved` or `rejected`
  decided_by text, -- email address of the other operator
  decided_at bigint
) without rowid;

create index operator_request_by_state on operator_request (state, id);

-- Networks and email domains that operators blocked.
create table operator_block (
  kind text not null, -- `network` or `email_domain`
  value text not null, -- `203.0.113.0/24`, or `example.com` with its subdomains
  reason text not null, -- as the operator wrote it
  created_by text not null, -- email address of the operator
  created_at bigint not null,
  primary key (kind, value)
) without rowid;

-- Limits that operators changed; without a row, the setting holds.
create table operator_limit (
  name text primary key,
  value text not null -- a whole number, or US dollars
) without rowid;

-- Sign-in sessions of operators.
-- Deleted: 30 days after they expire
create table operator_session (
  id text primary key,
  hash text not null unique, -- fingerprint of the cookie
  email text not null, -- the operator
  created_at bigint not null,
  seen_at bigint not null, -- last request
  expires_at bigint not null,
  ended_at bigint,
  network text not null,
  browser text not null
) without rowid;

-- The open circuit breakers of each process.
create table open_circuits (
  process text primary key,
  circuits text not null -- JSON: provider, account and model of each
) without rowid;

-- server

-- A check value of each master secret that the store was used with.
-- Deleted: of old secrets, when a rotation is complete
create table secret_check (
  id text primary key, -- check value
  first_used_at bigint not null
) without rowid;

-- signing

-- The public keys that verify quotes and receipts. Private keys are derived from the master secret.
create table signing_key (
  number bigint primary key, -- 1 for the first key
  public_key text not null, -- base64url
  created_at bigint not null
) without rowid;

-- ledger-proofs

-- The log of the ledger's roots: a record of each UTC day.
-- Deleted: never
create table ledger_day (
  number bigint primary key, -- place in the log, from 0
  day text not null unique, -- `2026-11-27`
  record text not null, -- JSON, as it is hashed
  published_at bigint not null
) without rowid;

-- The leaves of the trees of a day, in pages, from which proofs are made.
-- Deleted: after 31 days
create table ledger_proof_page (
  day text not null, -- `2026-11-27`
  root text not null, -- hash of the tree, so that repeated runs write the same rows
  page bigint not null, -- number of the page; -1 for the roots of all pages
  content bytea not null, -- its leaves: position, hash and amount of each
  primary key (day, root, page)
);
