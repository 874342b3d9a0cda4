alter table account add column name text;

alter table account add column created_by text;

create index if not exists account_by_creator on account (created_by);
