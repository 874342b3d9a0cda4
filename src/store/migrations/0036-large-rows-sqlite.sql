create table new_stored_response (
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

insert into new_stored_response (
  id, account_id, previous_id, status, background, hold_id, origin, bytes, data_key, kek_version, created_at, expires_at,
  sealed_record, sealed_input, sealed_response
)
select
  id, account_id, previous_id, status, background, hold_id, origin, bytes, data_key, kek_version, created_at, expires_at,
  sealed_record, sealed_input, sealed_response
from stored_response;

drop table stored_response;

alter table new_stored_response rename to stored_response;

create index stored_response_by_age on stored_response (account_id, created_at, bytes);

create index stored_response_by_expiry on stored_response (expires_at);

create index stored_response_in_progress on stored_response (created_at) where status = 'in_progress';

create table new_idempotent_answer (
  id text primary key,
  fingerprint text not null,
  state text not null,
  hold_id text,
  status bigint,
  created_at bigint not null,
  expires_at bigint not null,
  sealed text
);

insert into new_idempotent_answer (id, fingerprint, state, hold_id, status, created_at, expires_at, sealed)
select id, fingerprint, state, hold_id, status, created_at, expires_at, sealed from idempotent_answer;

drop table idempotent_answer;

alter table new_idempotent_answer rename to idempotent_answer;

create index idempotent_answer_by_expiry on idempotent_answer (expires_at);
