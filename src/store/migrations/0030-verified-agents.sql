-- The origin of the listed operator whose agent signed the creation.
alter table account add column verified_agent text;

create index if not exists account_by_verified_agent on account (verified_agent, id) where verified_agent is not null;
