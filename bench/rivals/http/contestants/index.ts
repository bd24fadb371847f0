import type { HttpRival } from '../rival.ts'
import { bare } from './bare.ts'
import { byHand } from './by-hand.ts'
import { expressIdempotency } from './express-idempotency.ts'
import { nodeIdempotency } from './node-idempotency.ts'
import { ONCEWARD } from './onceward.ts'

export const OTHERS: readonly HttpRival[] = [byHand, expressIdempotency, nodeIdempotency]
export const HTTP_RIVALS: readonly HttpRival[] = [bare, ...OTHERS, ...ONCEWARD]
