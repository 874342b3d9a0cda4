alter table wallet add column day_budget bigint;

alter table wallet add column month_budget bigint;

alter table wallet add column day_start bigint;

alter table wallet add column day_spent bigint;

alter table wallet add column month_start bigint;

alter table wallet add column month_spent bigint;
