import type { Rival } from '../rival.ts'
import { messageQueueToolkit } from './message-queue-toolkit.ts'
import { onConflict } from './on-conflict.ts'
import { ONCEWARD } from './onceward.ts'
import { pgTransactionalOutbox } from './pg-transactional-outbox.ts'
import { powertools } from './powertools.ts'
import { unguarded } from './unguarded.ts'

/** The libraries, and the hand-written solution. */
export const OTHERS: readonly Rival[] = [
  messageQueueToolkit,
  powertools,
  pgTransactionalOutbox,
  onConflict,
]

export const RIVALS: readonly Rival[] = [unguarded, ...OTHERS, ...ONCEWARD]
