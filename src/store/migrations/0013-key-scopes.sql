alter table api_key add column scopes text;

alter table api_key add column created_by text;

alter table provider_key add column key_id text;

alter table membership add column allowance_nano bigint;

alter table membership add column allowance_window text;
