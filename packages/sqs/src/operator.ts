import { SQSClient } from '@aws-sdk/client-sqs'
import { ConfigurationError, type Delivery } from '@onceward/core'
import {
  findingsOf,
  type GuardSettings,
  OPERATOR_CALL_MS,
  type OperateBroker,
  refusalOf,
  refuseParameters,
} from '@onceward/core/adapter'
import { systemRuntime } from '@onceward/core/ports'
import type { SqsApi } from './client.ts'
import { createSqsApi } from './clients/aws-sdk.ts'
import { originalMessage } from './dead-letter.ts'
import { sqsMessage } from './delivery.ts'
import { examine } from './doctor.ts'
import { classifyError, queueMissing, regionMissing } from './errors.ts'
import { isFifo, resolveSettings } from './options.ts'

// The adapter as the command line uses it. Not for users.

const PARAMETERS = ['dead-letter', 'region']
const EXAMPLE = 'https://sqs.eu-west-1.amazonaws.com/123456789012/orders'
const AWS_HOST = /(?:^|\.)sqs(?:-fips)?\.([a-z0-9-]+)\.(?:amazonaws|api\.aws)/
const TIMEOUTS = {
  ...{
    connectionTimeout: OPERATOR_CALL_MS,
    requestTimeout: OPERATOR_CALL_MS,
    throwOnRequestTimeout: true,
  },
}
const ignore = (): void => undefined
/** The SDK writes its warnings to the console otherwise. */
const SILENT = { debug: ignore, info: ignore, warn: ignore, error: ignore }

/** Reads the URL of a queue. Region, credentials and endpoint come from where the AWS SDK looks for them. */
export const operate: OperateBroker = ({ url, params, env }) => {
  refuseParameters(params, PARAMETERS)
  const { origin, host, pathname, username } = URL.canParse(url) ? new URL(url) : NO_URL
  if (pathname.length < 2 || username !== '') {
    throw new ConfigurationError(`Expected the URL of a queue, such as ${EXAMPLE}.`)
  }
  const region = params.get('region') ?? regionOf(host)
  const client = new SQSClient({
    ...(region === undefined ? {} : { region }),
    endpoint: env['AWS_ENDPOINT_URL_SQS'] ?? env['AWS_ENDPOINT_URL'] ?? origin,
    ...{ maxAttempts: 2, requestHandler: { ...TIMEOUTS, logger: SILENT }, logger: SILENT },
  })
  const api = createSqsApi(client, url, systemRuntime)
  return {
    place: host,
    inspect: (guard) => inspect({ api, queueUrl: url, params, guard }),
    // The same queue may be reached under several hosts, such as that of a VPC endpoint.
    owns: ({ broker, queue }) => {
      const other = URL.canParse(queue) ? new URL(queue) : NO_URL
      const otherRegion = regionOf(other.host) ?? region
      const isHere = region === undefined || otherRegion === region
      return broker === 'sqs' && other.pathname === pathname && isHere
    },
    ready: () => ready(api, url),
    send: (delivery) => send(api, url, delivery),
    [Symbol.asyncDispose]: async () => client.destroy(),
  }
}

/** Of one of the hosts of AWS that name it. */
const regionOf = (host: string): string | undefined => AWS_HOST.exec(host)?.[1]

const NO_URL = { origin: '', host: '', pathname: '', username: '' }

interface Inspection {
  readonly api: SqsApi
  readonly queueUrl: string
  readonly params: URLSearchParams
  readonly guard: GuardSettings
}

function inspect({ api, queueUrl, params, guard }: Inspection) {
  const dead = params.get('dead-letter')
  const deadLetter = dead === null || dead === 'redrive' ? (dead ?? undefined) : { queueUrl: dead }
  return findingsOf(async (logger) => {
    const settings = resolveSettings({ queueUrl, deadLetter }, guard)
    // The timeouts of this client are the operator's own; those of the consumer are not known here.
    const asked = { attributes: api.attributes, longestPollMs: () => undefined }
    await examine({ api: asked, settings, guard, logger })
  })
}

async function ready(api: SqsApi, queueUrl: string): Promise<void> {
  try {
    await api.attributes(queueUrl)
  } catch (error) {
    const { kind } = classifyError(error)
    if (kind === 'queue-missing') throw queueMissing('--broker', queueUrl)
    // Sending needs no right to read the attributes.
    if (kind !== 'denied') throw regionMissing(error) ?? error
  }
}

/** After these the message is not in the queue. */
const rethrow = refusalOf(classifyError, ['too-large', 'queue-missing', 'denied'])

async function send(api: SqsApi, queueUrl: string, delivery: Delivery): Promise<void> {
  const group = sqsMessage(delivery)?.Attributes?.MessageGroupId ?? delivery.orderingKey
  const message = {
    ...{ QueueUrl: queueUrl, ...originalMessage(delivery) },
    ...(group === undefined ? {} : { MessageGroupId: group }),
    // Under the original's id SQS would drop the copy within five minutes.
    ...(isFifo(queueUrl) ? { MessageDeduplicationId: systemRuntime.uuid() } : {}),
  }
  await api.send(message).catch(rethrow)
}
