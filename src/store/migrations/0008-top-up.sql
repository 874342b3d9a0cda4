create table if not exists auto_top_up (
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

create index if not exists auto_top_up_by_due on auto_top_up (due_at);

create index if not exists auto_top_up_by_status on auto_top_up (status, account_id);

create table if not exists top_up (
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

create index if not exists top_up_by_account on top_up (account_id, id);

create index if not exists top_up_by_invoice on top_up (invoice_id, id);

create index if not exists top_up_by_due on top_up (due_at);

create table if not exists payment_method (
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

create index if not exists payment_method_by_account on payment_method (account_id, id);

create index if not exists payment_method_by_page on payment_method (page_ref);

create index if not exists payment_method_by_due on payment_method (due_at);

alter table wallet add column top_up_at bigint not null default 0;
