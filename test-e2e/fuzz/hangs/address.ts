export type Address = { readonly host: string; readonly port: number }

export const addressOf = (url: string): Address => {
  const { hostname: host, port } = new URL(url)
  return { host, port: Number(port) }
}
