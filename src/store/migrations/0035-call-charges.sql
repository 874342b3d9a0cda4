alter table usage_record add column promo_nano bigint;

alter table usage_record add column paid_nano bigint;

alter table usage_record add column overrun_nano bigint;

alter table usage_record add column charged_at bigint;
