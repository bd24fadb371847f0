import {
  ConditionalCheckFailedException,
  DeleteItemCommand,
  GetItemCommand,
  PutItemCommand,
} from '@aws-sdk/client-dynamodb'
import { StoreUnavailableError } from '@onceward/core'
import { answerWithin, LATE } from '@onceward/core/adapter'
import type { EventId, Runtime } from '@onceward/core/ports'
import type { DynamoLike } from './client.ts'
import { isConditionFailed, toStoreError } from './errors.ts'
import { type Entry, keyOf, toEntry, toItem } from './item.ts'
import type { ResolvedDynamoOptions } from './options.ts'

/** The items of one table, each read and written by its own request. */
export class LeaseItems {
  readonly #client: DynamoLike
  readonly #options: ResolvedDynamoOptions
  readonly #runtime: Runtime

  constructor(client: DynamoLike, options: ResolvedDynamoOptions, runtime: Runtime) {
    this.#client = client
    this.#options = options
    this.#runtime = runtime
  }

  async read(id: EventId): Promise<Entry> {
    const command = new GetItemCommand({
      ...{ TableName: this.#options.table, Key: keyOf(id, this.#options), ConsistentRead: true },
    })
    const { Item } = await this.#ask('GetItem', (abortSignal) =>
      this.#client.send(command, { abortSignal }),
    )
    return toEntry(Item)
  }

  /**
   * Writes `next` if the item is still as `seen`. Otherwise answers what is there, and undefined if it was written.
   *
   * The SDK repeats a request whose answer was lost. The second one then finds the item changed, by the first: the
   * version tells.
   */
  async write(id: EventId, seen: Entry, next: Entry): Promise<Entry | undefined> {
    try {
      await this.#ask(next.state.kind === 'absent' ? 'DeleteItem' : 'PutItem', (abortSignal) =>
        this.#send(id, seen, next, abortSignal),
      )
      return undefined
    } catch (error) {
      if (!isConditionFailed(error)) throw error
      const there = await this.#thereAfter(id, error)
      const isOurs =
        next.state.kind === 'absent' ? there.version === undefined : there.version === next.version
      return isOurs ? undefined : there
    }
  }

  #send(id: EventId, seen: Entry, next: Entry, abortSignal: AbortSignal): Promise<unknown> {
    const { table, keyAttribute } = this.#options
    const conditional = {
      TableName: table,
      ReturnValuesOnConditionCheckFailure: 'ALL_OLD' as const,
      ...(seen.version === undefined
        ? {
            ConditionExpression: 'attribute_not_exists(#id)',
            ExpressionAttributeNames: { '#id': keyAttribute },
          }
        : {
            ConditionExpression: '#version = :seen',
            ExpressionAttributeNames: { '#version': 'version' },
            ExpressionAttributeValues: { ':seen': { S: seen.version } },
          }),
    }
    if (next.state.kind === 'absent') {
      const Key = keyOf(id, this.#options)
      return this.#client.send(new DeleteItemCommand({ ...conditional, Key }), { abortSignal })
    }
    const Item = toItem(id, next, this.#options)
    return this.#client.send(new PutItemCommand({ ...conditional, Item }), { abortSignal })
  }

  /** DynamoDB returns the item with the error. Servers that do not are asked again. */
  #thereAfter(id: EventId, error: unknown): Promise<Entry> {
    const isComplete = error instanceof ConditionalCheckFailedException && error.Item !== undefined
    return isComplete ? Promise.resolve(toEntry(error.Item)) : this.read(id)
  }

  async #ask<Answer>(
    call: string,
    send: (abortSignal: AbortSignal) => Promise<Answer>,
  ): Promise<Answer> {
    const { budgetMs } = this.#options
    const abort = new AbortController()
    try {
      const answer = await answerWithin(this.#runtime, send(abort.signal), budgetMs)
      if (answer !== LATE) return answer
    } catch (error) {
      throw isConditionFailed(error) ? error : toStoreError(error, call)
    }
    abort.abort()
    throw new StoreUnavailableError(
      `DynamoDB did not answer ${call} within ${budgetMs} ms. It may still carry it out.`,
    )
  }
}
