import type { Guard, Health } from '@onceward/core'
import type { Server, TcpProxy } from '@onceward/testing'
import type { QueueUnderTest } from '../../brokers/queue-under-test.ts'
import type { Address } from './address.ts'

/** A running consumer as a user has it: with the adapter's loop, or with a loop of the user's around the wrap. */
export interface Subject {
  /** Undefined where the wrap has none. */
  health(): Health | undefined
  /** Stops the user's loop, if there is one, and drains. */
  drain(): Promise<void>
  /** Closes the user's clients. */
  close(): Promise<void>
}

export interface SubjectParts<Queue extends QueueUnderTest = QueueUnderTest> {
  readonly queue: Queue
  readonly guard: Guard
  /** Undefined: no proxy stands before the broker. */
  readonly links: Readonly<Record<'broker' | 'publish', TcpProxy>> | undefined
  readonly isWrapped: boolean
}

/** A broker with the consumers of its adapter. */
export interface HangBroker {
  readonly server: Server<unknown>
  readonly address: Address
  createQueue(): Promise<QueueUnderTest>
  start(parts: SubjectParts): Promise<Subject>
}

export const DRAIN_MS = 4_000

/** Runs `step` again and again until it is stopped; an error is a reason to wait for a moment. */
export function loop(step: () => Promise<void>): { stop(): Promise<void> } {
  let isStopped = false
  const run = async (): Promise<void> => {
    while (!isStopped) {
      await step().catch(() => new Promise((resolve) => setTimeout(resolve, 200)))
    }
  }
  const running = run()
  return {
    stop: () => {
      isStopped = true
      return running
    },
  }
}

/** Waits for what a client may never answer, because its connection was cut or hangs, but not for longer than `ms`. */
export async function soon(ending: Promise<unknown> | undefined, ms: number): Promise<void> {
  const ended = ending?.catch(() => undefined)
  await Promise.race([ended, new Promise((resolve) => setTimeout(resolve, ms))])
}
