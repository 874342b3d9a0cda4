-- The process of a model call that has claimed the key, and its epoch: another one takes the key over when it has ended.
alter table idempotent_answer add column process text;

alter table idempotent_answer add column epoch bigint;

create index if not exists idempotent_answer_running on idempotent_answer (process) where state = 'running';
