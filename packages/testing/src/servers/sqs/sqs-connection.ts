/** What `new SQSClient(…)` takes. */
export interface SqsConnection {
  readonly endpoint: string
  readonly region: string
  readonly credentials: { readonly accessKeyId: string; readonly secretAccessKey: string }
}

/** Connection data of an emulator, which takes any credentials. */
export function sqsConnection(endpoint: string): SqsConnection {
  return {
    endpoint,
    region: 'us-east-1',
    credentials: { accessKeyId: 'test', secretAccessKey: 'test' },
  }
}

/** Rejects until the endpoint answers a call of the SQS protocol. */
export async function probeSqs(endpoint: string): Promise<void> {
  const response = await fetch(endpoint, {
    method: 'POST',
    headers: {
      'content-type': 'application/x-amz-json-1.0',
      'x-amz-target': 'AmazonSQS.ListQueues',
      authorization:
        'AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/sqs/aws4_request, ' +
        'SignedHeaders=host, Signature=0',
    },
    body: '{}',
    signal: AbortSignal.timeout(5_000),
  })
  const body = await response.text()
  if (!response.ok) throw new Error(`${endpoint} answered ${response.status}: ${body}`)
}
