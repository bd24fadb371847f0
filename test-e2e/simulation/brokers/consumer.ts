import type { Delivery, Guard, Settlement } from '@onceward/core'
import { type GuardPort, portOf } from '@onceward/core/adapter'
import type { Publish } from '@onceward/core/ports'
import type { Audit } from '../judge/audit.ts'
import type { Bystander } from '../world/bystander.ts'
import type { Link } from '../world/link.ts'
import type { Life } from '../world/process.ts'
import type { Decision } from './acks.ts'
import type { Message, Received, SimulatedBroker } from './broker.ts'
import { CallOrder, wrongResult } from './call-order.ts'
import type { DeadLetterPlace } from './dead-letter-place.ts'

const SOURCE = { broker: 'simulated', queue: 'orders' } as const

export interface ConsumerOptions {
  readonly guard: Guard
  readonly broker: SimulatedBroker
  readonly place: DeadLetterPlace
  readonly link: Link
  readonly life: Life
  readonly audit: Audit
  readonly loops: number
  readonly batchSize: number
  readonly isSplit: boolean
  readonly acked: (message: Message, decision: Decision) => void
  readonly note: (what: string) => void
  readonly bystander: Pick<Bystander, 'drain'> | undefined
}

/** One process's adapter: receives, hands to the guard, settles. */
export class Consumer {
  readonly #options: ConsumerOptions
  readonly #port: GuardPort
  readonly #stop = new AbortController()
  readonly #abort = new AbortController()
  readonly #loops: Promise<void>[] = []
  /** One function for the one place. */
  readonly #publish: Publish = (letter) => {
    const { link, place } = this.#options
    return link.call('dead-letter', () => place.take(letter))
  }

  constructor(options: ConsumerOptions) {
    this.#options = options
    this.#port = portOf(options.guard)
    this.#port.registerPublisher(SOURCE, this.#publish)
    options.broker.joined(options.life)
    for (let loop = 0; loop < options.loops; loop += 1) this.#loops.push(this.#receive())
  }

  /** Ends as a deployment ends it; resolves when nothing is left. */
  async drain(drainMs: number): Promise<void> {
    const { broker, bystander, guard, life } = this.#options
    this.#stop.abort()
    broker.left(life)
    const cancel = life.runtime.setTimer(() => this.#abort.abort(), drainMs)
    await Promise.all(this.#loops)
    await Promise.all([guard.close(), bystander?.drain()])
    cancel()
  }

  /** Its connection is lost, and is there again; who drains has left for good. */
  reconnect(): void {
    const { broker, life } = this.#options
    broker.left(life)
    if (!this.#stop.signal.aborted) broker.joined(life)
  }

  /** Adapters open the stores at start: parked events are run by processes that receive nothing, too. */
  async #open(): Promise<void> {
    while (!this.#stop.signal.aborted) {
      try {
        return await this.#port.open()
      } catch {
        await this.#sleep(1_000)
      }
    }
  }

  async #receive(): Promise<void> {
    const { audit, batchSize, broker, life, link } = this.#options
    await this.#open()
    while (!this.#stop.signal.aborted) {
      const availability = this.#port.availability()
      if (availability.kind === 'down') await this.#sleep(availability.retryAt - life.runtime.now())
      let received: readonly Received[]
      const { epoch } = link
      try {
        received = await link.call(
          'receive',
          () => {
            const isGone = this.#stop.signal.aborted || link.epoch !== epoch
            return isGone ? [] : broker.receive(life, batchSize)
          },
          () => this.#stop.signal.aborted || broker.hasFor(life),
        )
      } catch {
        continue
      }
      for (const { message } of received) this.#note('has', message)
      for (const { message } of received) audit.took(life, audit.byKey(message.key).id)
      await this.#process(received)
      broker.finished(received.map(({ receipt }) => receipt))
    }
  }

  async #process(received: readonly Received[]): Promise<void> {
    const settled: Promise<void>[] = []
    const { audit } = this.#options
    for (const one of received) {
      const isSuspect = one.redelivered === true || (one.deliveryCount ?? 1) > 1
      if (!isSuspect) audit.byKey(one.message.key).freshDeliveries += 1
    }
    const times = received.map(() => 0)
    const inCall = new CallOrder(received, (key) => audit.acks.isDead(key))
    await this.#port.run(received.map(toDelivery), {
      stop: this.#stop.signal,
      abort: this.#abort.signal,
      onSettlement: (index, settlement) => {
        const one = received[index]
        if (one !== undefined) settled.push(this.#settle(one, settlement))
        const wrong = inCall.settled(index, settlement) ?? this.#wrongResult(one, settlement)
        if (wrong !== undefined) audit.violate(wrong)
        times[index] = (times[index] ?? 0) + 1
      },
    })
    for (const [index, { message }] of received.entries()) {
      if (times[index] !== 1) audit.violate(`#${message.number} was settled ${times[index]} times`)
    }
    await Promise.all(settled)
  }

  /** A message that was split has no result of its own. */
  #wrongResult(one: Received | undefined, settlement: Settlement): string | undefined {
    return this.#options.isSplit ? undefined : wrongResult(one, settlement)
  }

  async #settle(received: Received, settlement: Settlement): Promise<void> {
    const { audit, life } = this.#options
    const { id } = audit.byKey(received.message.key)
    const isCutOff = settlement.kind === 'defer' && settlement.reason === 'store-down'
    if (isCutOff) audit.cutOff(life, id, String(received.receipt))
    try {
      await this.#carryOut(received, settlement)
    } catch {
      // The broker did not answer: the message comes back by itself.
    } finally {
      if (life.isAlive) audit.laidDown(life, id)
    }
  }

  async #carryOut({ message, receipt }: Received, settlement: Settlement): Promise<void> {
    const { broker, life, link } = this.#options
    const decision = { life, atMs: life.runtime.monotonic() }
    this.#note('reason' in settlement ? settlement.reason : settlement.kind, message)
    const putBack = (verb: string, delayMs: number): Promise<void> =>
      link.call(verb, () => broker.putBack(receipt, delayMs))
    switch (settlement.kind) {
      case 'ack':
        this.#options.audit.acks.replied(message, settlement.by)
        return this.#ack(message, receipt, decision)
      case 'defer':
        return putBack('defer', Math.max(0, settlement.until - life.runtime.now()))
      case 'abandon':
        return putBack('abandon', 0)
      case 'dead-letter': {
        const answer = await this.#port.publishDeadLetter(settlement, this.#publish)
        return answer.kind === 'retry'
          ? putBack('defer', 1_000)
          : this.#ack(message, receipt, decision)
      }
    }
  }

  #ack(message: Message, receipt: number, decision: Decision): Promise<void> {
    const { acked, broker, link } = this.#options
    return link.call('ack', () => {
      if (broker.ack(receipt)) acked(message, decision)
    })
  }

  #note(what: string, { key, number, plan }: Message): void {
    this.#options.note(`${what} #${number} ${key} ${plan.variant}`)
  }

  #sleep(ms: number): Promise<void> {
    return new Promise((resolve) => {
      this.#options.life.runtime.setTimer(resolve, Math.max(1, ms))
    })
  }
}

function toDelivery({ deliveryCount, message, receipt, redelivered }: Received): Delivery {
  return {
    body: message.body,
    // A duplicate is the same message: only the receipt tells the two apart.
    headers: { 'idempotency-key': message.key, receipt: String(receipt) },
    source: { ...SOURCE, position: String(message.number) },
    orderingKey: message.lane,
    deliveryCount,
    redelivered,
  }
}
