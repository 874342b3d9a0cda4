alter table provider_key add column api_key_ids text;

alter table provider_key add column allow_store bigint not null default 0;

update provider_key set api_key_ids = key_id where key_id is not null and api_key_ids is null;
