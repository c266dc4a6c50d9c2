-- The load of scripts/bench for wrk: `tools/call` as clients send it, every id different within a round of 256.
--   wrk … -s call.lua URL -- modern|legacy [SESSION,…] [TOKEN] [TOOL ARGUMENTS]
-- Prints one line of JSON at the end.

local MODERN = '{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"%s","arguments":%s,' ..
    '"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",' ..
    '"io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1.0.0"},' ..
    '"io.modelcontextprotocol/clientCapabilities":{}}}}'
local LEGACY = '{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"%s","arguments":%s}}'

local requests, at = {}, 0

function init(args)
    local headers = { ['Content-Type'] = 'application/json', ['Accept'] = 'application/json, text/event-stream' }
    if (args[3] or '') ~= '' then headers['Authorization'] = 'Bearer ' .. args[3] end
    local sessions, tool, given = {}, args[4] or 'bench', args[5] or '{"text":"hello"}'
    for session in (args[2] or ''):gmatch('[^,]+') do sessions[#sessions + 1] = session end
    for id = 1, 256 do
        if args[1] == 'modern' then
            headers['MCP-Protocol-Version'] = '2026-07-28'
            headers['Mcp-Method'] = 'tools/call'
            headers['Mcp-Name'] = tool
        else
            headers['MCP-Protocol-Version'] = '2025-11-25'
            headers['Mcp-Session-Id'] = sessions[id % #sessions + 1]
        end
        requests[id] = wrk.format('POST', nil, headers, (args[1] == 'modern' and MODERN or LEGACY):format(id, tool, given))
    end
end

function request()
    at = at % 256 + 1
    return requests[at]
end

function done(summary, latency)
    local errors = summary.errors
    io.write(('{"calls":%d,"seconds":%.6f,"p50_us":%d,"p99_us":%d,"errors":%d,"bytes":%d}\n'):format(
        summary.requests, summary.duration / 1e6, latency:percentile(50), latency:percentile(99),
        errors.connect + errors.read + errors.write + errors.status + errors.timeout, summary.bytes))
end
