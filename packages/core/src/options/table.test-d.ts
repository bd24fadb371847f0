import { OPTIONS, type OptionTable } from './table.ts'

const { concurrency, leaseMs, skip, ...others } = OPTIONS

// @ts-expect-error a row is missing
export const forgotten: OptionTable = { ...others, concurrency, leaseMs }

// @ts-expect-error `DEFAULTS` has a `leaseMs`, so its row needs one too
export const withoutDefault: OptionTable = { ...OPTIONS, leaseMs: skip }

// @ts-expect-error `DEFAULTS` has no `skip`
export const withDefault: OptionTable = { ...OPTIONS, skip: { ...skip, default: 5 } }
