// The part of a Lambda environment that runs a function: asks the Runtime API for invocations, for ever.
// https://docs.aws.amazon.com/lambda/latest/dg/runtimes-api.html
import { pathToFileURL } from 'node:url'

type Handler = (event: unknown, context: object) => Promise<unknown>

const api = `http://${process.env['AWS_LAMBDA_RUNTIME_API']}/2018-06-01/runtime/invocation`
const [file = '', name = ''] = (process.env['_HANDLER'] ?? '').split('#')
const exports: { readonly default?: object } = await import(pathToFileURL(file).href)
const handler: Handler = Reflect.get(exports, name) ?? Reflect.get(exports.default ?? {}, name)
// Lambda refuses functions with a callback.
if (handler.length > 2) throw new Error(`${name} takes ${handler.length} arguments.`)

const post = (path: string, body: unknown): Promise<Response> =>
  fetch(`${api}/${path}`, { method: 'POST', body: JSON.stringify(body) ?? 'null' })

for (;;) {
  const next = await fetch(`${api}/next`)
  const id = next.headers.get('lambda-runtime-aws-request-id')
  const endsAt = Number(next.headers.get('lambda-runtime-deadline-ms'))
  const context = { awsRequestId: id, getRemainingTimeInMillis: () => endsAt - Date.now() }
  try {
    await post(`${id}/response`, await handler(await next.json(), context))
  } catch (error) {
    const { name: errorType, message: errorMessage } = error as Error
    await post(`${id}/error`, { errorType, errorMessage })
  }
}
