create table if not exists invoice (
  id text primary key,
  account_id text not null,
  status text not null,
  amount_cents bigint not null check (amount_cents > 0),
  fee_cents bigint not null check (fee_cents >= 0),
  tax_cents bigint not null check (tax_cents >= 0),
  created_at bigint not null,
  paid_at bigint,
  voided_at bigint
);

create index if not exists invoice_by_account on invoice (account_id, id);

create index if not exists invoice_by_status on invoice (account_id, status);

create table if not exists checkout (
  id text primary key,
  invoice_id text not null,
  processor text not null,
  ref text not null,
  state text not null,
  created_at bigint not null,
  looked_at bigint not null,
  due_at bigint
);

create index if not exists checkout_by_invoice on checkout (invoice_id, id);

create index if not exists checkout_by_due on checkout (due_at);

create table if not exists payment (
  id text primary key,
  invoice_id text not null,
  account_id text not null,
  processor text not null,
  state text not null,
  reason text,
  currency text not null,
  amount_cents bigint not null,
  credit_cents bigint not null,
  fee_cents bigint not null,
  tax_cents bigint not null,
  refunded_cents bigint not null,
  disputed_cents bigint not null,
  paid_at bigint not null
);

create index if not exists payment_by_invoice on payment (invoice_id, id);

create table if not exists payment_fact (
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

create index if not exists payment_fact_by_payment on payment_fact (payment_id, state);

alter table wallet add column owed bigint not null default 0;
